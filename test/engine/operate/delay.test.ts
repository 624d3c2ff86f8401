import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { LabCall } from "../../probe/lab.ts";
import { ProbeFollow } from "../../probe/messages.ts";
import { blocked } from "../../probe/turns.ts";
import { asking } from "../asking.ts";
import { ask } from "../callbacks/heard.ts";
import { deliver, dieAt, fresh, keeperRound, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { theOperator } from "./bulk/bulk.ts";

const in_s = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();

/** A command that is due in an hour, and the number of times that it ran. */
async function delayed(more: object = { delay_seconds: 3600 }) {
  const caller = await asking();
  const did = { times: 0 };
  const id = await ask(
    caller,
    ({ step }) =>
      step.commit("work", () => {
        did.times++;
        return {};
      }),
    more,
  );
  const act = (verb: string, body: object = {}) => caller.post(`/v1/instances/${id}/${verb}`, { reason: "it is time", ...body });
  /** Delivers the message as its queue does. */
  const arrives = async () => {
    const [row] = await rows<{ envelope: string }>("SELECT envelope FROM millrace_instances WHERE id = ?1", id);
    return deliver("probe-commands", [JSON.parse(row?.envelope ?? "")]);
  };
  return { caller, id, did, act, arrives, due: async () => (await caller.get(`/v1/instances/${id}`)).body.due_at as string };
}

it("a command with run_at is due at that time; with a delay too, or beyond 365 days, it is refused, and a past time is no delay", async () => {
  const runAt = in_s(3600);
  const { caller, due } = await delayed({ run_at: runAt });
  expect(Math.abs(Date.parse(await due()) - Date.parse(runAt))).toBeLessThan(2000);
  for (const more of [{ run_at: in_s(366 * 86_400) }, { run_at: runAt, delay_seconds: 1 }]) {
    await expect(ask(caller, async () => null, more)).rejects.toThrow('"path":"run_at"');
  }
  expect(await reaches(await ask(caller, async () => null, { run_at: in_s(-60) }), "complete")).toBe("complete");
});

it("a command of a batch with run_at is due at that time, and the rate of the batch spreads such commands from that time", async () => {
  const caller = await asking();
  const send = (more: object, runAt = in_s(3600)) => {
    const commands = [1, 2].map(() => ({ type: "lab.requested", payload: { name: fresh("lab") }, run_at: runAt }));
    return caller.post("/v1/commands/batch", { commands, ...more });
  };
  const dueIn = ({ body }: { body: { results: { due_at: string }[] } }) =>
    body.results.map(({ due_at }) => Math.round((Date.parse(due_at) - Date.now()) / 60_000));
  expect(dueIn(await send({}))).toEqual([60, 60]);
  expect(dueIn(await send({ rate_per_second: 0.001 }))).toEqual([60, 77]);
  const [past, later] = (await send({ rate_per_second: 0.001 }, in_s(-60))).body.results;
  expect([past.due_at, Math.round((Date.parse(later.due_at) - Date.now()) / 60_000)]).toEqual([null, 17]);
});

it("delayed commands are listed, the next due first, page by page, and only the caller's", async () => {
  const { caller, id } = await delayed();
  await delayed();
  const nothing = async () => null;
  const soon = await ask(caller, nothing, { delay_seconds: 60, tags: ["a"] });
  const late = await ask(caller, nothing, { delay_seconds: 7200 });
  await reaches(await ask(caller, nothing), "complete");
  const listed = async (query: string) => (await caller.get(`/v1/instances?activity=delayed${query}`)).body;
  const ids = ({ items }: { items: { id: string }[] }) => items.map((one) => one.id);
  const first = await listed("&limit=2");
  expect(ids(first)).toEqual([soon, id]);
  expect(ids(await listed(`&limit=2&cursor=${first.next_cursor}`))).toEqual([late]);
  expect(ids(await listed("&tag=a"))).toEqual([soon]);
});

it("a moved command does not start by the message of its first time, but at the new time, once", async () => {
  const { id, did, act, arrives, due } = await delayed();
  const runAt = in_s(7200);
  expect((await act("move", { run_at: runAt, dry_run: true })).body).toMatchObject({
    refused: null,
    consequence: `The command starts at ${runAt}.`,
  });
  const { body } = await act("move", { run_at: runAt });
  expect(await due()).toBe(runAt);
  const [audit] = await rows("SELECT verb, result, reason, after FROM millrace_actions WHERE id = ?1", body.action_id);
  expect(audit).toEqual({ verb: "move", result: "applied", reason: "it is time", after: JSON.stringify({ due_at: runAt }) });
  await arrives();
  expect(await statusOf(id)).toBe("accepted");
  await act("move", { run_at: in_s(1) });
  expect(await reaches(id, "complete")).toBe("complete");
  await arrives();
  expect(did.times).toBe(1);
});

it("a released command starts once, although its message arrives too, and then has no time to move", async () => {
  const { id, did, act, arrives } = await delayed();
  expect((await act("release", { dry_run: true })).body).toMatchObject({ refused: null, effects: [] });
  expect((await act("release")).status).toBe(202);
  await arrives();
  expect(await reaches(id, "complete")).toBe("complete");
  expect(did.times).toBe(1);
  for (const [verb, body] of [
    ["release", {}],
    ["move", { run_at: in_s(60) }],
  ] as const) {
    expect((await act(verb, body)).body).toMatchObject({
      code: "invalid_transition",
      detail: expect.stringContaining("The instance is complete"),
    });
  }
});

it("the message of a released command that arrives after the end does not change the time of the end", async () => {
  const { id, act, arrives } = await delayed();
  await act("release");
  expect(await reaches(id, "complete")).toBe("complete");
  const ended = () => rows("SELECT updated_at FROM millrace_instances WHERE id = ?1", id);
  await probeEnv.DB.prepare("UPDATE millrace_instances SET updated_at = 1 WHERE id = ?1").bind(id).run();
  const deliveries = () => rows<{ deliveries: number }>("SELECT deliveries FROM millrace_instances WHERE id = ?1", id);
  const [before] = await deliveries();
  await arrives();
  expect(await deliveries()).toEqual([{ deliveries: (before?.deliveries ?? 0) + 1 }]);
  expect(await ended()).toEqual([{ updated_at: 1 }]);
});

it("A03 the keeper starts a released command once if the process dies after the commit, and no command before its due time", async () => {
  const { id, did, act, arrives } = await delayed();
  const check = () => probeEnv.DB.prepare("UPDATE millrace_instances SET check_at = 0 WHERE id = ?1").bind(id).run();
  await check();
  await keeperRound();
  expect(await statusOf(id)).toBe("accepted");
  dieAt("A03 accept committed, not enqueued");
  await act("release").catch(() => undefined);
  await check();
  await until(
    async () => {
      await keeperRound();
      return statusOf(id);
    },
    (status) => status === "complete",
  );
  await arrives();
  expect(did.times).toBe(1);
});

it("a command that waits for no slot is not released with front, and a delayed command is not restarted, as their dry runs report", async () => {
  const { id, did, act } = await delayed();
  for (const [verb, body, why] of [
    ["release", { front: true }, "The command does not wait for a slot: release it without `front`."],
    ["restart", {}, "The instance has not started, so it cannot be restarted. Its queue, lane or workflow starts it."],
  ] as const) {
    expect((await act(verb, { ...body, dry_run: true })).body.refused).toBe(why);
    const { status, body: answer } = await act(verb, body);
    expect([status, answer.detail]).toEqual([409, why]);
  }
  expect([await statusOf(id), did.times]).toEqual(["accepted", 0]);
});

it("a dry run reports that a paused delayed command starts at once when it is resumed", async () => {
  const { did, act, due, id } = await delayed();
  const at = await due();
  expect((await act("pause", { dry_run: true })).body.consequence).toContain(`Its due time, ${at}, no longer applies`);
  expect((await act("pause")).status).toBe(202);
  expect((await act("resume", { dry_run: true })).body.consequence).toContain(`starts at once, before its due time, ${at}`);
  expect((await act("resume")).status).toBe(202);
  expect(await reaches(id, "complete")).toBe("complete");
  expect(did.times).toBe(1);
});

it("a command is not moved or released if it is due, cancelled, not delayed, or if the new time is not within 365 days", async () => {
  const { id, did, act, arrives } = await delayed();
  for (const run_at of [in_s(-1), in_s(366 * 86_400)])
    expect((await act("move", { run_at })).body.detail).toContain("within the next 365 days");
  await probeEnv.DB.prepare("UPDATE millrace_instances SET due_at = 1 WHERE id = ?1").bind(id).run();
  expect((await act("move", { run_at: in_s(60) })).body.detail).toContain("is due: it is just being started");
  const cancelled = await delayed();
  expect((await cancelled.act("cancel")).status).toBe(202);
  expect(await reaches(cancelled.id, "terminated")).toBe("terminated");
  expect((await cancelled.act("release")).body.detail).toContain("The instance is terminated");
  await cancelled.arrives();
  await arrives();
  expect(await reaches(id, "complete")).toBe("complete");
  expect([did.times, cancelled.did.times]).toEqual([1, 0]);
});

describe("A command that is due in more than 12 hours, the limit of a queue", () => {
  /** Moves the clock of a row behind its due time, and lets the keeper work until the instance has ended. */
  const comesDue = async (id: string) => {
    await keeperRound();
    expect(await statusOf(id)).toBe("accepted");
    await probeEnv.DB.prepare("UPDATE millrace_instances SET due_at = 1, check_at = 1 WHERE id = ?1").bind(id).run();
    await until(
      async () => {
        await keeperRound();
        return statusOf(id);
      },
      (status) => status === "complete",
    );
  };

  it("is not sent to its queue, and the keeper starts it once when it is due", async () => {
    const sent = vi.spyOn(Object.getPrototypeOf(probeEnv.PROBE_COMMANDS), "sendBatch");
    onTestFinished(() => sent.mockRestore());
    const { id, did, due, arrives } = await delayed({ run_at: in_s(3 * 86_400) });
    expect(sent.mock.calls.filter(([messages]) => JSON.stringify(messages).includes(id))).toEqual([]);
    const [row] = await rows<{ check_at: number }>("SELECT check_at FROM millrace_instances WHERE id = ?1", id);
    expect(row?.check_at).toBe(Date.parse(await due()));
    await comesDue(id);
    await arrives();
    expect(did.times).toBe(1);
  });

  it("A03 is started once, although the process died after the commit", async () => {
    const caller = await asking();
    const did = { times: 0 };
    const code = ({ step }: LabCall) => step.commit("work", () => ({ output: ++did.times }));
    dieAt("A03 accept committed, not enqueued");
    await expect(ask(caller, code, { delay_seconds: 2 * 86_400 })).rejects.toThrow();
    const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE tenant_id = ?1", caller.tenantId);
    await comesDue(row?.id ?? "");
    expect(did.times).toBe(1);
  });

  it("is moved beyond 12 hours and back, and its first message does not start it", async () => {
    const { id, did, act, arrives, due } = await delayed();
    const runAt = in_s(200 * 86_400);
    expect((await act("move", { run_at: runAt })).status).toBe(202);
    expect(await due()).toBe(runAt);
    await arrives();
    expect(await statusOf(id)).toBe("accepted");
    expect((await act("move", { run_at: in_s(1) })).status).toBe(202);
    expect(await reaches(id, "complete")).toBe("complete");
    expect(did.times).toBe(1);
  });

  it("is refused in a lane", async () => {
    const { post } = await asking();
    const command = { type: blocked.command.type, payload: { key: "a", name: "a" }, run_at: in_s(86_400) };
    const { status, body } = await post("/v1/commands", command);
    expect([status, body.issues?.[0]?.message]).toEqual([422, expect.stringContaining("12 hours from now, the limit of a lane")]);
  });
});

it("a deadline of the workflow counts from the due time of a delayed command", async () => {
  const { post, get, tenantId } = await asking();
  const { body } = await post("/v1/commands", { type: ProbeFollow.type, payload: { name: tenantId, step: "x" }, delay_seconds: 86_400 });
  const { due_at, must_end_by } = (await get(`/v1/instances/${body.instance_id}`)).body;
  expect(Date.parse(must_end_by)).toBeGreaterThan(Date.parse(due_at));
});

it("a move changes the deadline of the workflow by the same time, and is refused beyond the command's own deadline", async () => {
  const { post, get, tenantId } = await asking();
  const sent = { type: ProbeFollow.type, payload: { name: tenantId, step: "x" }, delay_seconds: 3600 };
  const { body } = await post("/v1/commands", sent);
  const shown = async () => (await get(`/v1/instances/${body.instance_id}`)).body;
  const before = await shown();
  for (const [verb, more] of [
    ["move", { run_at: in_s(86_400) }],
    ["release", {}],
  ] as const) {
    expect((await post(`/v1/instances/${body.instance_id}/${verb}`, { reason: "later", ...more })).status).toBe(202);
    const { due_at, must_end_by } = await shown();
    expect(Date.parse(must_end_by) - Date.parse(due_at)).toBe(Date.parse(before.must_end_by) - Date.parse(before.due_at));
  }

  const own = await delayed({ delay_seconds: 3600, must_end_by: "2 hours" });
  const deadline = (await own.caller.get(`/v1/instances/${own.id}`)).body.must_end_by;
  const why = `The command must end by ${deadline}: move it to an earlier time.`;
  expect((await own.act("move", { run_at: in_s(7300), dry_run: true })).body.refused).toBe(why);
  expect((await own.act("move", { run_at: in_s(7300) })).body).toMatchObject({ code: "invalid_transition", detail: why });
  expect((await own.act("move", { run_at: in_s(7000) })).status).toBe(202);
  expect((await own.caller.get(`/v1/instances/${own.id}`)).body.must_end_by).toBe(deadline);
});

it("bulk actions move and release the delayed commands of a filter, and no command that is due", async () => {
  const caller = await asking();
  const { tenantId } = caller;
  const { start, over, ask: asks } = await theOperator(["read", "operate"], tenantId);
  const did = { times: 0 };
  const work = ({ step }: LabCall) => step.commit("work", () => ({ output: ++did.times }));
  const ids = [await ask(caller, work, { delay_seconds: 3600 }), await ask(caller, work, { delay_seconds: 7200 })];
  await reaches(await ask(caller, async () => null), "complete");
  expect((await start({ verb: "move", filter: {} })).body).toMatchObject({ issues: [{ path: "run_at" }] });
  expect((await start({ verb: "release", filter: {}, run_at: in_s(60) })).body).toMatchObject({ issues: [{ path: "run_at" }] });
  const runAt = in_s(30 * 86_400);
  expect((await start({ verb: "move", filter: {}, run_at: runAt, dry_run: true })).body).toMatchObject({ matched: 2 });
  const { body: moved } = await start({ verb: "move", filter: { workflow: "lab" }, run_at: runAt });
  expect(await over(moved.id)).toMatchObject({ state: "complete", done: 2, run_at: runAt });
  const dues = await Promise.all(ids.map(async (id) => (await asks<{ due_at: string }>(`/v1/instances/${id}`)).body.due_at));
  expect(dues).toEqual([runAt, runAt]);
  const { body: released } = await start({ verb: "release", filter: {} });
  expect(await over(released.id)).toMatchObject({ state: "complete", matched: 2, done: 2 });
  for (const id of ids) expect(await reaches(id, "complete")).toBe("complete");
  expect(did.times).toBe(2);
});
