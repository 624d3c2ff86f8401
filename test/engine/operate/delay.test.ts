import { expect, it } from "vitest";
import { asking } from "../asking.ts";
import { ask } from "../callbacks/heard.ts";
import { deliver, dieAt, keeperRound, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";

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

it("a command with run_at is due at that time; with a delay too, or beyond 12 hours, it is refused, and a past time is no delay", async () => {
  const runAt = in_s(3600);
  const { caller, due } = await delayed({ run_at: runAt });
  expect(Math.abs(Date.parse(await due()) - Date.parse(runAt))).toBeLessThan(2000);
  for (const more of [{ run_at: in_s(50_000) }, { run_at: runAt, delay_seconds: 1 }]) {
    await expect(ask(caller, async () => null, more)).rejects.toThrow('"path":"run_at"');
  }
  expect(await reaches(await ask(caller, async () => null, { run_at: in_s(-60) }), "complete")).toBe("complete");
});

it("delayed commands are listed, the next due first, page by page, and only the caller's", async () => {
  const { caller, id } = await delayed();
  await delayed();
  const nothing = async () => null;
  const soon = await ask(caller, nothing, { delay_seconds: 60, tags: ["a"] });
  const late = await ask(caller, nothing, { delay_seconds: 7200 });
  await reaches(await ask(caller, nothing), "complete");
  const listed = async (query: string) => (await caller.get(`/v1/instances?standing=delayed${query}`)).body;
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
    follows: `The command starts at ${runAt}.`,
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

it("a command is not moved or released if it is due, cancelled, not delayed, or if the new time is not within 12 hours", async () => {
  const { id, did, act, arrives } = await delayed();
  for (const run_at of [in_s(-1), in_s(50_000)]) expect((await act("move", { run_at })).body.detail).toContain("within the next 12 hours");
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
