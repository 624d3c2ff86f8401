import { env } from "cloudflare:workers";
import { messageFor } from "millrace/testing";
import { expect, it } from "vitest";
import { highest, invoked } from "../../platform-limits.ts";
import { probe } from "../../probe/workflows.ts";
import { deliver, fresh, rows, until } from "../harness.ts";

// A deployed queue runs up to 250 invocations of a consumer at the same time, delivers messages in any order, and may repeat each of them.

const COMMANDS = 120;
const COPIES = 3;
const BATCH = 20;

function shuffled<T>(list: readonly T[]): T[] {
  return list
    .map((one) => ({ one, at: Math.random() }))
    .toSorted((one, other) => one.at - other.at)
    .map(({ one }) => one);
}

it("commands that are delivered three times, in shuffled batches to parallel consumers, start one instance and record one effect each", async () => {
  const tenantId = fresh("parallel");
  const commands = Array.from({ length: COMMANDS }, (_, nth) => {
    const steps = [{ do: "commit", name: "once" }];
    return messageFor(probe, { name: `${tenantId}-${nth}`, steps, note: "" } as never, { tenantId }).message;
  });
  const copies = shuffled(Array.from({ length: COPIES }, () => commands).flat());
  const batches = Array.from({ length: copies.length / BATCH }, (_, nth) => copies.slice(nth * BATCH, (nth + 1) * BATCH));
  const settled = await Promise.all(batches.map((batch) => deliver("probe-commands", batch)));
  expect(settled.reduce((sum, { acked }) => sum + acked, 0)).toBe(COMMANDS * COPIES);
  const ended = await until(
    () => rows<{ status: string }>("SELECT status FROM millrace_instances WHERE tenant_id = ?1", tenantId),
    (found) => found.every(({ status }) => status === "complete"),
  );
  expect(ended).toEqual(Array.from({ length: COMMANDS }, () => ({ status: "complete" })));
  const entries = `SELECT e.state FROM millrace_inbox e JOIN millrace_instances i ON i.id = e.instance_id
    WHERE i.tenant_id = ?1 AND e.step = 'once'`;
  expect(await rows(entries, tenantId)).toEqual(Array.from({ length: COMMANDS }, () => ({ state: "done" })));
  // A batch takes a constant number of database calls, also with repeats.
  expect(highest.get("queue")?.queries).toBeLessThan(100);
});

it("the tests refuse the 1001st query of an invocation, as the deployed platform does", async () => {
  const ask = (count: number) => env.DB.batch(Array.from({ length: count }, () => env.DB.prepare("SELECT 1")));
  await invoked("fetch", () => ask(1000));
  await expect(invoked("fetch", () => ask(1000).then(() => env.DB.prepare("SELECT 1").first()))).rejects.toThrow("more than 1000 queries");
  await expect(invoked("alarm", () => ask(1001))).rejects.toThrow("more than 1000 queries");
  await invoked("instance", () => ask(1001));
});
