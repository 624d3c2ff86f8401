import { runInDurableObject } from "cloudflare:test";
import { keeperOf } from "millrace/worker";
import { expect, it, onTestFinished } from "vitest";
import { probeEnv, reaches, rows } from "../harness.ts";
import { runLab } from "../lab.ts";

const HALF_A_DAY_MS = 43_200_000;

/** An instance that has slept for half a day, so that its next check is in half a day. */
async function sleeper(): Promise<{ nextLookMs: () => Promise<number> }> {
  const { instanceId } = await runLab(async ({ step }) => {
    await step.commit("before", () => ({}));
    await step.sleep("rest", "7 days");
  });
  expect(await reaches(instanceId, "running")).toBe("running");
  await probeEnv.DB.prepare("UPDATE millrace_instances SET seen = 1, status = 'waiting', check_at = ?1 WHERE id = ?2")
    .bind(Date.now() + HALF_A_DAY_MS, instanceId)
    .run();
  const nextLookMs = async () => {
    const [row] = await rows<{ check_at: number }>("SELECT check_at FROM millrace_instances WHERE id = ?1", instanceId);
    return (row?.check_at ?? 0) - Date.now();
  };
  return { nextLookMs };
}

/** Restarts the keeper, also during a round for other tests. */
async function keeperBegins(): Promise<void> {
  await runInDurableObject(probeEnv.KEEPER.getByName("keeper"), (_, state) => state.abort("It died.")).catch(() => undefined);
  await keeperOf(probeEnv).round();
}

it("a local keeper checks sleeping instances when it starts, because the earlier process may have died before their wake-up", async () => {
  await keeperOf(probeEnv).round();
  const { nextLookMs } = await sleeper();
  await keeperOf(probeEnv).round();
  expect(await nextLookMs()).toBeGreaterThan(HALF_A_DAY_MS / 2);
  await keeperBegins();
  expect(await nextLookMs()).toBeLessThan(HALF_A_DAY_MS / 2);
});

it("a deployed keeper does not check sleeping instances when it starts, because the platform wakes them", async () => {
  const { DB } = probeEnv;
  const deployed = new Proxy(DB, {
    get: (db, name) => {
      if (name === "prepare")
        return (text: string) => (text === "SELECT 1" ? { run: async () => ({ meta: { served_by: "v3-prod" } }) } : db.prepare(text));
      return Reflect.get(db, name).bind(db);
    },
  });
  // The keeper remembers the platform until it is restarted, and would not restart dead engines in the tests that follow.
  onTestFinished(async () => {
    Object.assign(probeEnv, { DB });
    await keeperBegins();
  });
  const { nextLookMs } = await sleeper();
  Object.assign(probeEnv, { DB: deployed });
  await keeperBegins();
  expect(await nextLookMs()).toBeGreaterThan(HALF_A_DAY_MS / 2);
});
