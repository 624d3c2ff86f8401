import type { CrashPoint } from "millrace/testing";
import { expect, it } from "vitest";
import { startDue } from "../../../packages/millrace/src/schedules/due.ts";
import { app } from "../../probe/worker.ts";
import { dieAt, keeperRound, probeEnv, rows, until } from "../harness.ts";
import { crowd } from "./flowing.ts";

/** The points at which a process dies while it accepts a command, sends its message or starts its instance. */
const POINTS = [
  "A01 before accept commits",
  "A02 accept committed, not answered",
  "A03 accept committed, not enqueued",
  "A11 commands gathered, not committed",
  "A12 gathered commands committed, not enqueued",
  "A13 gathered commands enqueued, not answered",
  "Q03 created, not acknowledged",
] as const satisfies CrashPoint[];

interface Row {
  key: string;
  status: string;
  due_at: number;
}

type Crowd = Awaited<ReturnType<typeof crowd>>;

/** The instances of a tenant in the order of their acceptance. */
const accepted = (tenantId: string) =>
  rows<Row>("SELECT idempotency_key AS key, status, due_at FROM millrace_instances WHERE tenant_id = ?1 ORDER BY rowid", tenantId);

/** Sends concurrent commands until each is accepted, and delivers all of their messages twice. */
async function sendAll({ send, arrives }: Crowd, names: readonly string[]): Promise<void> {
  const ids = await Promise.all(
    names.map((name) =>
      send(name)
        .catch(() => send(name))
        .catch(() => send(name)),
    ),
  );
  for (const id of ids) await arrives(id).catch(() => arrives(id));
}

/** The rows at the end: while the keeper runs, all instances come to an end. */
const ended = (tenantId: string) =>
  until(
    async () => {
      await keeperRound();
      return accepted(tenantId);
    },
    (found) => found.every(({ status }) => status === "complete" || status === "skipped"),
  );

it.each(POINTS)("throttled commands start once each, one in each period, after a crash (%s)", async (point) => {
  const all = await crowd({ throttle: { limit: 1, periodMs: 700 } });
  all.end("all");
  dieAt(point);
  await sendAll(all, ["a", "b", "c"]);
  const found = await ended(all.tenantId);
  expect(found.map(({ status }) => status)).toEqual(["complete", "complete", "complete"]);
  const gaps = found.slice(1).map(({ due_at }, index) => due_at - (found[index]?.due_at ?? 0));
  expect(gaps.every((gap) => gap >= 700)).toBe(true);
  expect(all.begun()).toEqual(found.map(({ key }) => key.slice(all.tenantId.length + 1)));
});

it.each(POINTS)("of debounced commands only the last one starts, and once, after a crash (%s)", async (point) => {
  const all = await crowd({ debounce: { periodMs: 3000 } });
  all.end("all");
  dieAt(point);
  await sendAll(all, ["a", "b", "c"]);
  const found = await ended(all.tenantId);
  expect(found.map(({ status }) => status)).toEqual(["skipped", "skipped", "complete"]);
  expect(all.begun()).toEqual([found[2]?.key.slice(all.tenantId.length + 1)]);
});

it("a run that a schedule starts waits for a slot of its key, and gets it at the end of the run before", async () => {
  const { tenantId, command, send, end, begun, hasBegun } = await crowd();
  await send("a");
  await hasBegun("a");
  const { type, payload } = command("b");
  await rows(
    `INSERT INTO millrace_schedules (tenant_id, name, cron, time_zone, command, payload, late_ms, state, next_at, changed_at, changed_by)
     VALUES (?1, 'b', '0 * * * *', 'UTC', ?2, ?3, 3600000, 'active', ?4, 0, 'ada') RETURNING name`,
    tenantId,
    type,
    JSON.stringify(payload),
    Date.now() - 1000,
  );
  await startDue(probeEnv, app);
  const states = () =>
    rows<{ status: string; waits: number }>(
      "SELECT status, slot_turn IS NOT NULL AS waits FROM millrace_instances WHERE tenant_id = ?1 ORDER BY rowid",
      tenantId,
    );
  expect(await states()).toMatchObject([{ waits: 0 }, { status: "accepted", waits: 1 }]);
  await keeperRound();
  expect(begun()).toEqual(["a"]);
  end("all");
  await hasBegun("b");
  expect((await ended(tenantId)).map(({ status }) => status)).toEqual(["complete", "complete"]);
  expect(begun()).toEqual(["a", "b"]);
});
