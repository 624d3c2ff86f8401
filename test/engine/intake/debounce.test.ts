import { defineCommand, defineQueue, defineWorkflow, ids as messageIds } from "millrace";
import { deadLetters } from "millrace/operate";
import { expect, it } from "vitest";
import * as z from "zod";
import { noteFlow } from "../../../packages/millrace/src/contract/flow.ts";
import { now, sql } from "../../../packages/millrace/src/contract/sql.ts";
import { acceptance, acceptanceChunks } from "../../../packages/millrace/src/intake/accept/accept.ts";
import { commitCommands } from "../../../packages/millrace/src/recorder/gather.ts";
import { atomically } from "../../../packages/millrace/src/store/d1/retry.ts";
import { takeIn } from "../../../packages/millrace/src/store/instances/accept.ts";
import { lab } from "../../probe/lab.ts";
import { app } from "../../probe/worker.ts";
import { deliver, dieAt, envelopeOf, keeperRound, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { runLab } from "../lab.ts";
import { crowd } from "./flowing.ts";
import { reader } from "./letter.ts";

/** The due times of instances, in milliseconds after the first. */
async function dueTimes(tenantId: string): Promise<number[]> {
  const found = await rows<{ due_at: number }>("SELECT due_at FROM millrace_instances WHERE tenant_id = ?1 ORDER BY rowid", tenantId);
  return found.map(({ due_at }) => due_at - (found[0]?.due_at ?? 0));
}

it("only the last command of a debounced key runs; the earlier ones are skipped, and name the later one", async () => {
  const { send, end, begun, get, heldOf } = await crowd({ debounce: { periodMs: 1500 } });
  end("all");
  const first = await send("a");
  expect(await heldOf(first)).toContain("Debounced");
  const second = await send("b");
  const other = await send("x", {}, "two");
  const last = await send("c");
  expect((await get(`/v1/instances/${second}`)).body).toMatchObject({
    status: "skipped",
    error: { code: "replaced", message: `A later command of the same key replaced it: ${last}.` },
  });
  expect((await get(`/v1/instances/${first}`)).body.error.message).toContain(second);
  for (const id of [last, other]) expect(await reaches(id, "complete")).toBe("complete");
  expect(begun().toSorted()).toEqual(["c", "x"]);
  // A repeat of a replaced command gets its instance, and starts nothing.
  expect(await send("a")).toBe(first);
  expect(await statusOf(first)).toBe("skipped");
  const next = await send("d");
  expect(await reaches(next, "complete")).toBe("complete");
  expect(await statusOf(last)).toBe("complete");
});

it("commands of one batch, of concurrent requests and of a queue replace each other, and one of a key runs", async () => {
  const { send, end, begun, post, command, nameOf, tenantId } = await crowd({ debounce: { periodMs: 2500 } });
  end("all");
  await post("/v1/commands/batch", { commands: ["a", "b", "c"].map((name) => command(name)) });
  await Promise.all(["d", "e", "f", "g", "h"].map((name) => send(name)));
  const message = await envelopeOf((await runLab(async () => undefined, { note: "not of this tenant" })).instanceId);
  const bodies = ["p", "q"].map((name) => {
    const { payload } = command(name);
    return { ...message, tenant_id: tenantId, payload_inline: payload, idempotency_key: nameOf(name), subject: nameOf(name) };
  });
  expect(await deliver("probe-commands", [...bodies, ...bodies])).toMatchObject({ acked: 4 });
  const states = await rows<{ status: string }>("SELECT status FROM millrace_instances WHERE tenant_id = ?1 ORDER BY rowid", tenantId);
  expect(states.map(({ status }) => status)).toEqual([...Array(9).fill("skipped"), "accepted"]);
  const last = messageIds.instance(tenantId, "lab", nameOf("q"));
  await until(
    async () => {
      await keeperRound();
      return statusOf(last);
    },
    (status) => status === "complete",
  );
  expect(begun()).toEqual(["q"]);
});

it("a debounced command without a sent message starts by the keeper when it is due (A03)", async () => {
  const { send, end, begun, nameOf, tenantId } = await crowd({ debounce: { periodMs: 300 } });
  end("all");
  dieAt("A03 accept committed, not enqueued");
  await expect(send("a")).rejects.toThrow();
  const id = messageIds.instance(tenantId, "lab", nameOf("a"));
  await until(
    async () => {
      await keeperRound();
      return statusOf(id);
    },
    (status) => status === "complete",
  );
  expect(begun()).toEqual(["a"]);
});

it("a throttled key starts its limit per period, in the order of acceptance, and other keys are not delayed", async () => {
  const { send, end, begun, post, command, tenantId, heldOf } = await crowd({ throttle: { limit: 2, periodMs: 1500 } });
  const other = await crowd({ throttle: { limit: 2, periodMs: 1500 } });
  end("all");
  other.end("all");
  const names = ["a", "b", "c", "d", "e"];
  const { body } = await post("/v1/commands/batch", { commands: names.map((name) => command(name)) });
  const ids: string[] = body.results.map((one: { instance_id: string }) => one.instance_id);
  const [, , third, fourth, fifth] = await dueTimes(tenantId);
  expect([third, fourth, fifth]).toEqual([1500, 1500, 3000]);
  expect(await heldOf(ids[4] ?? "")).toContain("Throttled");
  for (const id of [await send("x", {}, "two"), await other.send("a")]) expect(await reaches(id, "complete")).toBe("complete");
  expect(begun()).not.toContain("c");
  for (const id of ids) expect(await reaches(id, "complete")).toBe("complete");
  expect(
    begun()
      .filter((name) => name !== "x")
      .slice(2, 4)
      .toSorted(),
  ).toEqual(["c", "d"]);
  expect(begun().at(-1)).toBe("e");
});

it("an operator starts, moves and cancels throttled commands as delayed ones", async () => {
  const { send, end, begun, act, get } = await crowd({ throttle: { limit: 1, periodMs: 3_600_000 } });
  end("all");
  const [first, second, third, fourth] = [await send("a"), await send("b"), await send("c"), await send("d")];
  expect(await reaches(first, "complete")).toBe("complete");
  expect((await get("/v1/instances?activity=delayed")).body.items.map(({ id }: { id: string }) => id)).toEqual([second, third, fourth]);
  expect((await act(third, "release")).status).toBe(202);
  expect(await reaches(third, "complete")).toBe("complete");
  expect((await act(second, "cancel")).status).toBe(202);
  await keeperRound();
  expect(await reaches(second, "terminated")).toBe("terminated");
  expect((await act(fourth, "move", { run_at: new Date(Date.now() + 700).toISOString() })).status).toBe(202);
  expect(await reaches(fourth, "complete")).toBe("complete");
  expect(begun()).toEqual(["a", "c", "d"]);
});

it("throttle and concurrency together: a due command also waits for its slot", async () => {
  const { send, end, begun, most, heldOf, hasBegun } = await crowd({ concurrency: { limit: 1 }, throttle: { limit: 1, periodMs: 300 } });
  const [first, second] = [await send("a"), await send("b")];
  await hasBegun("a");
  await until(
    () => heldOf(second),
    (held) => held?.includes("slots") === true,
  );
  end("all");
  for (const id of [first, second]) expect(await reaches(id, "complete")).toBe("complete");
  expect([begun(), most()]).toEqual([["a", "b"], 1]);
});

it("a debounced command that arrives in one batch with others of its slot key occupies no slot before its due time", async () => {
  const { send, end, post, command, tenantId, hasBegun } = await crowd();
  const concurrency = { key: () => "all", limit: 1 };
  noteFlow({ ...lab, concurrency, debounce: { key: ({ note }) => note, periodMs: 3_600_000 } });
  await post("/v1/commands/batch", { commands: ["x", "y", "z"].map((name) => command(name, name)) });
  expect(await rows("SELECT 1 FROM millrace_instances WHERE tenant_id = ?1 AND slot_turn IS NULL", tenantId)).toEqual([]);
  noteFlow({ ...lab, concurrency });
  const free = await send("free");
  await hasBegun("free");
  end("all");
  expect(await reaches(free, "complete")).toBe("complete");
});

it.each([true, false])("later commands of a throttled key do not wait for cancelled ones (undo: %s)", async (undo) => {
  const { send, end, act, get } = await crowd({ throttle: { limit: 1, periodMs: 3_600_000 } });
  end("all");
  const ids = [await send("a"), await send("b"), await send("c"), await send("d")];
  const dueOf = async (id = "") => Date.parse((await get(`/v1/instances/${id}`)).body.due_at);
  const due = await dueOf(ids[1]);
  for (const id of ids.slice(1)) expect((await act(id, "cancel", { undo })).status).toBe(202);
  const late = await dueOf(await send("e"));
  expect(late).toBeGreaterThanOrEqual(due);
  expect(late).toBeLessThan(due + 3_600_000);
});

it("a command that waits for a slot is replaced although its message arrived a second before its due time", async () => {
  const { send, end, begun } = await crowd({ debounce: { periodMs: 3000 }, concurrency: { limit: 1 } });
  end("all");
  const first = await send("a");
  const [message = ""] = acceptanceChunks([acceptance({ name: "lab" }, await envelopeOf(first), "probe-commands")]);
  const isDueIn = (ms: number) => sql`UPDATE millrace_instances SET due_at = ${now} + ${ms} WHERE id = ${first}`;
  await atomically(probeEnv.DB, [isDueIn(900), takeIn(message), isDueIn(60_000)]);
  const last = await send("b");
  expect(await statusOf(first)).toBe("skipped");
  expect(await reaches(last, "complete")).toBe("complete");
  expect(begun()).toEqual(["b"]);
});

it("a debounced command that is paused and resumed before its due time still waits for its slot", async () => {
  const { send, end, act, begun, hasBegun, heldOf, most } = await crowd({ debounce: { periodMs: 1000 }, concurrency: { limit: 1 } });
  await send("a");
  await hasBegun("a");
  const next = await send("b");
  expect((await act(next, "pause")).status).toBe(202);
  expect((await act(next, "resume")).status).toBe(202);
  await until(
    () => rows("SELECT 1 FROM millrace_actions WHERE instance_id = ?1 AND applied_at IS NULL", next),
    (open) => open.length === 0,
  );
  await keeperRound();
  expect(await heldOf(next)).toContain("Waits for one of 1 slots");
  expect(begun()).toEqual(["a"]);
  end("all");
  expect(await reaches(next, "complete")).toBe("complete");
  expect(most()).toBe(1);
});

it("the deadline of a throttled command counts from its due time, and a stated end remains", async () => {
  const { send, end, tenantId, command, nameOf } = await crowd({ throttle: { limit: 1, periodMs: 7_200_000 } });
  end("all");
  const model = await envelopeOf(await send("a"));
  const arrive = (name: string, more: object) => {
    const envelope = { ...model, ...more, payload_inline: command(name).payload, idempotency_key: nameOf(name), subject: nameOf(name) };
    return acceptance({ ...lab, deadline: "1 hour" }, envelope, "probe-commands");
  };
  const stated = new Date(Date.now() + 60_000).toISOString();
  const commands = [arrive("b", {}), arrive("c", { must_end_by: stated })];
  const texts = commands.map(({ row }) => row);
  await commitCommands(probeEnv.DB, commands, texts);
  const ends = await rows<{ due: number; end: number }>(
    "SELECT due_at AS due, must_end_by AS end FROM millrace_instances WHERE tenant_id = ?1 AND must_end_by IS NOT NULL ORDER BY rowid",
    tenantId,
  );
  expect(Math.round(((ends[0]?.end ?? 0) - (ends[0]?.due ?? 0)) / 1000)).toBe(3600);
  expect(ends[1]?.end).toBe(Date.parse(stated));
});

it("replayed commands of a throttled key start within the limit", async () => {
  const { send, end, tenantId } = await crowd({ throttle: { limit: 1, periodMs: 3_600_000 } });
  end("all");
  const first = await send("a");
  expect(await reaches(first, "complete")).toBe("complete");
  const second = await send("b");
  await rows("UPDATE millrace_instances SET status = 'dead', due_at = due_at - 3600000 WHERE id = ?1 RETURNING id", second);
  await rows(
    `INSERT INTO millrace_dead_letters (id, tenant_id, queue, instance_id, body, reason, attempts, first_at, captured_at)
     SELECT id, tenant_id, queue, id, envelope, 'exhausted', 3, 0, 0 FROM millrace_instances WHERE id = ?1 RETURNING id`,
    second,
  );
  await deadLetters.replay(probeEnv, app, { ...reader, tenantId }, second, { reason: "mended" });
  const state = await rows<{ status: string; isLater: number }>(
    `SELECT b.status, b.due_at - a.due_at >= 3600000 AS isLater FROM millrace_instances a, millrace_instances b WHERE a.id = ?1 AND b.id = ?2`,
    first,
    second,
  );
  expect(state).toEqual([{ status: "accepted", isLater: 1 }]);
});

it("invalid periods, and both options at once, are refused", () => {
  const on = defineCommand({
    type: "order.ship",
    payload: z.object({}),
    key: () => "k",
    subject: () => "s",
    queue: defineQueue({ name: "orders" }),
  });
  const declare = (options: object) => () => defineWorkflow({ name: "ship-order", on, ...options, run: async () => null });
  const key = () => "k";
  expect(declare({ debounce: { key, periodMs: 0 } })).toThrow("`periodMs`: whole milliseconds");
  expect(declare({ throttle: { key, limit: 0, periodMs: 5 } })).toThrow("`limit`: a whole number");
  expect(declare({ throttle: { key, limit: 1, periodMs: 5 }, debounce: { key, periodMs: 5 } })).toThrow("remove one");
});
