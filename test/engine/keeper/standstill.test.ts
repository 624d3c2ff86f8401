import { keeperOf } from "millrace/worker";
import { expect, it, onTestFinished, vi } from "vitest";
import { dieAt, fresh, happened, probeEnv, reaches, rows, start, statusOf, withKeeperAtRest } from "../harness.ts";
import { run } from "./crowd.ts";

/** An accepted command whose message waits in its queue. `waits.since` is the time of the oldest message of the queue. */
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
  /** A keeper round that checks the command after this time. Returns the status of the command. */
  const lookIn = async (ms: number) => {
    const clock = vi.spyOn(Date, "now").mockReturnValue(Date.now() + ms);
    await run("UPDATE millrace_instances SET check_at = 0 WHERE id = ?1", id);
    await keeperOf(probeEnv).round();
    clock.mockRestore();
    return statusOf(id);
  };
  return { name, id, waits, lookIn };
}

it("K01 the keeper starts a queued command if its queue delivers nothing for two minutes, and not before", async () => {
  // A round with a changed clock sets a wrong next alarm, which is reset after this test.
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
