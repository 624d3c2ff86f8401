import { keeperOf } from "millrace/worker";
import { expect, it, onTestFinished, vi } from "vitest";
import { dieAt, fresh, happened, probeEnv, reaches, rows, start, statusOf, withKeeperAtRest } from "../harness.ts";
import { run } from "./crowd.ts";

/** An accepted command with a message that waits in its queue, queued behind one of this age. */
async function queued() {
  const name = fresh();
  dieAt("A03 accept committed, not enqueued");
  await start(name, [{ do: "keyed", name: "act" }]).catch(() => undefined);
  const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1", name);
  const id = String(row?.id);
  const waits = { since: Date.now() - 60_000 };
  const metrics = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_COMMANDS), "metrics").mockImplementation(async () => ({
    backlogCount: 5,
    backlogBytes: 1,
    oldestMessageTimestamp: new Date(waits.since),
  }));
  onTestFinished(() => metrics.mockRestore());
  /** A check of it by the keeper, at this time from now. */
  const lookIn = async (ms: number) => {
    const clock = vi.spyOn(Date, "now").mockReturnValue(Date.now() + ms);
    await run("UPDATE millrace_instances SET check_at = 0 WHERE id = ?1", id);
    await keeperOf(probeEnv).round();
    clock.mockRestore();
    return statusOf(id);
  };
  return { name, id, waits, lookIn };
}

it("K01 the keeper starts a command if its queue delivers nothing for two minutes; a moving queue keeps its commands", async () => {
  // A round by another clock sets the next one by that: after this test it runs by the right one.
  await withKeeperAtRest();
  const { name, id, waits, lookIn } = await queued();
  expect(await lookIn(0)).toBe("accepted");
  waits.since += 10_000;
  expect(await lookIn(121_000)).toBe("accepted");
  expect(await lookIn(200_000)).toBe("accepted");
  await lookIn(242_000);
  expect(await reaches(id, "complete")).toBe("complete");
  expect(await happened(`${name}/act`)).toHaveLength(1);
});
