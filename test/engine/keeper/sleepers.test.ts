import { runInDurableObject } from "cloudflare:test";
import { keeperOf } from "millrace/worker";
import { expect, it, onTestFinished } from "vitest";
import { probeEnv, reaches, rows } from "../harness.ts";
import { runLab } from "../lab.ts";

const HALF_A_DAY_MS = 43_200_000;

it("A local keeper that begins looks at once at those who sleep: the process before it may have died shortly before their time", async () => {
  onTestFinished(() => void Object.assign(probeEnv, { KEEPER_NUDGES: undefined }));
  const { instanceId } = await runLab(async ({ step }) => {
    await step.commit("before", () => ({}));
    await step.sleep("rest", "7 days");
  });
  expect(await reaches(instanceId, "running")).toBe("running");
  // As it is left after half a day of sleep: for half a day more.
  await probeEnv.DB.prepare("UPDATE instances SET seen = 1, status = 'waiting', check_at = ?1 WHERE id = ?2")
    .bind(Date.now() + HALF_A_DAY_MS, instanceId)
    .run();
  const nextLookMs = async () => {
    const [row] = await rows<{ check_at: number }>("SELECT check_at FROM instances WHERE id = ?1", instanceId);
    return (row?.check_at ?? 0) - Date.now();
  };
  const keeper = keeperOf(probeEnv);
  await keeper.round();
  expect(await nextLookMs()).toBeGreaterThan(HALF_A_DAY_MS / 2);
  Object.assign(probeEnv, { KEEPER_NUDGES: "true" });
  // It may be at work for others: it dies all the same.
  await runInDurableObject(probeEnv.KEEPER.getByName("keeper"), (_, state) => state.abort("It died.")).catch(() => undefined);
  await keeperOf(probeEnv).round();
  expect(await nextLookMs()).toBeLessThan(HALF_A_DAY_MS / 2);
});
