import { notRetryable } from "millrace";
import { expect, it } from "vitest";
import { labs } from "../../probe/lab.ts";
import { asking } from "../asking.ts";
import { keeperRound, reaches, rows, statusOf, until } from "../harness.ts";
import { addressOf, ask, endsIn, hurried, saidIn } from "./heard.ts";

/** The callback instances of a tenant. */
const calls = (tenantId: string) =>
  rows<{ id: string; status: string; correlation_id: string }>(
    "SELECT id, status, correlation_id FROM millrace_instances WHERE tenant_id = ?1 AND workflow = 'send-callback'",
    tenantId,
  );

it("the callback address is called once when its instance ends, signed with the tenant's secret, without payload and result", async () => {
  const caller = await asking();
  const { url, heard } = await addressOf(caller);
  const id = await ask(caller, async () => ({ secret: "of the result" }), { callback_url: url, correlation_id: "spring" });
  const [call] = await heard(1);
  expect(call?.verified).toEqual([true]);
  expect(call?.id).toBe(`${id}-1-complete`);
  const instance = (await caller.get(`/v1/instances/${id}`)).body;
  expect(JSON.parse(call?.body ?? "")).toEqual({
    type: "instance.ended",
    timestamp: instance.updated_at,
    data: {
      instance_id: id,
      run: 1,
      status: "complete",
      workflow: "lab",
      message_type: "lab.requested",
      idempotency_key: instance.idempotency_key,
      correlation_id: "spring",
      subject: instance.subject,
      error: null,
      undone: false,
      accepted_at: instance.accepted_at,
      ended_at: instance.updated_at,
    },
  });
  const told = await until(
    async () => (await caller.get(`/v1/instances/${id}`)).body.callback,
    ({ told: said }) => said !== null,
  );
  const end = { run: 1, status: "complete" };
  expect(told).toEqual({
    url,
    called: end,
    told: end,
    delivery: { instance_id: expect.any(String), status: "complete", attempts: null, last_error: null },
  });
  await keeperRound();
  await keeperRound();
  expect(await heard()).toHaveLength(1);
  expect(await calls(caller.tenantId)).toMatchObject([{ status: "complete", correlation_id: "spring" }]);
});

it("a callback reports each end of a run: a failure without its message, the end of the retry, and the end of the undo", async () => {
  const caller = await asking();
  const { url, heard } = await addressOf(caller);
  let broken = true;
  const id = await ask(
    caller,
    async ({ step }) => {
      await step.commit("put", () => (broken ? fail() : {}), { retries: { limit: 0, delay: 10 }, undo: () => ({}) });
    },
    { callback_url: url },
  );
  const [failed] = await heard(1);
  expect(failed && saidIn(failed).data).toMatchObject({ run: 1, status: "errored", error: { step: "put", code: "not_retryable" } });
  expect(failed?.body).not.toContain("of a customer");
  broken = false;
  await until(
    () => caller.post(`/v1/instances/${id}/retry`, { reason: "mended" }),
    ({ status }) => status === 202,
  );
  expect(endsIn(await heard(2))).toEqual(["1 errored", "2 complete"]);
  expect((await caller.post(`/v1/instances/${id}/undo`, { reason: "called off" })).status).toBe(202);
  const all = await heard(3);
  expect(endsIn(all)).toEqual(["1 errored", "2 complete", "3 terminated"]);
  expect(all[2] && saidIn(all[2]).data).toMatchObject({ undone: true, error: null });
  expect((await caller.post(`/v1/instances/${id}/close`, { reason: "nobody needs it" })).status).toBe(202);
  const closed = (await heard(4))[3];
  expect(closed && saidIn(closed).data).toMatchObject({ status: "skipped", undone: true });
  expect((await caller.get(`/v1/instances/${id}`)).body).toMatchObject({ status: "skipped", undo: "done" });
});

it("the callbacks for a failed undo and for its close report that the instance is not undone", async () => {
  const caller = await asking();
  const { url, heard } = await addressOf(caller);
  const id = await ask(
    caller,
    async ({ step }) => {
      await step.commit("put", () => ({}), { retries: { limit: 0, delay: 10 }, undo: () => fail() });
    },
    { callback_url: url },
  );
  await heard(1);
  expect((await caller.post(`/v1/instances/${id}/undo`, { reason: "called off" })).status).toBe(202);
  await heard(2);
  expect((await caller.post(`/v1/instances/${id}/close`, { reason: "it stays so" })).status).toBe(202);
  const all = await heard(3);
  expect(all.map((one) => saidIn(one).data)).toMatchObject([
    { status: "complete", undone: false },
    { status: "errored", undone: false },
    { status: "skipped", undone: false },
  ]);
  expect((await caller.get(`/v1/instances/${id}`)).body).toMatchObject({ status: "skipped", undo: "open" });
});

function fail(): never {
  throw notRetryable("The words of a customer.");
}

it("a failed callback is repeated with the same id; after a permanent failure its instance is errored, and an operator can retry it", async () => {
  await hurried();
  const caller = await asking();
  const shaky = await addressOf(caller, [{ status: 503, times: 2 }]);
  await ask(caller, async () => null, { callback_url: shaky.url });
  const thrice = await shaky.heard(3);
  expect(thrice.map(({ answered, id }) => [answered, id])).toEqual([503, 503, 204].map((answered) => [answered, thrice[0]?.id]));

  const gone = await addressOf(caller, [{ status: 410, times: 1 }]);
  await ask(caller, async () => null, { callback_url: gone.url, correlation_id: "gone" });
  await gone.heard(1);
  const listed = () => caller.get("/v1/instances?status=errored&workflow=send-callback&correlation=gone");
  const { body } = await until(listed, (found) => found.body.items.length > 0);
  expect(body.items).toMatchObject([{ error: { step: "call back", code: "not_retryable", upstream_status: 410 } }]);
  expect(JSON.stringify(body.items[0].error)).not.toContain(gone.url);
  const again = () => caller.post(`/v1/instances/${body.items[0].id}/retry`, { reason: "the receiver is available again" });
  await until(again, ({ status }) => status === 202);
  expect(new Set((await gone.heard(2)).map(({ id }) => id)).size).toBe(1);
});

it("an instance shows the answer of a callback address that refuses every call, during the retries and after the last", async () => {
  const caller = await asking();
  const { url, heard } = await addressOf(caller, [{ status: 500, times: 99 }]);
  const callback = async (id: string) => (await caller.get(`/v1/instances/${id}`)).body.callback;
  const waits = await ask(caller, async () => null, { callback_url: url });
  await heard(1);
  const refused = await until(
    () => callback(waits),
    (found) => found.delivery?.last_error,
  );
  const end = { run: 1, status: "complete" };
  expect(refused).toMatchObject({ called: end, told: null, delivery: { status: expect.stringMatching(/queued|running/), attempts: 1 } });
  expect(refused.delivery.last_error).toContain("The callback_url answered 500.");

  await hurried();
  const fails = await ask(caller, async () => null, { callback_url: url });
  const failed = await until(
    () => callback(fails),
    (found) => found.delivery?.status === "errored",
  );
  expect(failed).toMatchObject({ called: end, told: null, delivery: { attempts: 19, last_error: "The callback_url answered 500." } });
  expect((await caller.get(`/v1/instances/${failed.delivery.instance_id}`)).body.workflow).toBe("send-callback");
});

it("a callback runs for the instance's own tenant, with that tenant's secret; another tenant cannot see it", async () => {
  const [one, other] = [await asking(), await asking()];
  expect((await one.get("/v1/callback-secret")).body.secret).not.toBe((await other.get("/v1/callback-secret")).body.secret);
  const { url, heard } = await addressOf(other);
  await ask(one, async () => null, { callback_url: url });
  expect((await heard(1))[0]?.verified).toEqual([false]);
  const [call] = await calls(one.tenantId);
  expect((await other.get(`/v1/instances/${call?.id}`)).body.code).toBe("instance_not_found");
  expect((await (await asking(["read", "enqueue", "operate"])).get("/v1/callback-secret")).status).toBe(403);
});

it("no callback is sent for an unknown outcome, a question or a sleep; a repeat of the command does not change the callback address", async () => {
  const caller = await asking();
  const [first, second] = [await addressOf(caller), await addressOf(caller)];
  const silent = await ask(caller, async () => null);
  await reaches(silent, "complete");
  const asks = { type: "lab.requested", payload: { name: "asks", note: "" }, idempotency_key: "asks" };
  labs.set("asks", async ({ step }) => step.approve("may it", { question: "May it?", timeout: "1 day" }));
  const once = (callback_url: string) => caller.post("/v1/commands/batch", { commands: [{ ...asks, callback_url }] });
  const id = (await once(first.url)).body.results[0].instance_id;
  expect((await once(second.url)).body.results).toMatchObject([{ status: 202, instance_id: id, replayed: true }]);
  const [question] = (
    await until(
      () => caller.get(`/v1/approvals?instance=${id}`),
      ({ body }) => body.items.length > 0,
    )
  ).body.items;
  await keeperRound();
  expect(await first.heard()).toEqual([]);
  await caller.post(`/v1/approvals/${question.id}/approve`, { reason: "yes" });
  expect(endsIn(await first.heard(1))).toEqual(["1 complete"]);
  expect(await second.heard()).toEqual([]);
  expect(await calls(caller.tenantId)).toHaveLength(1);
});

it("a callback waits while the workflow of callbacks is paused for its tenant, and is sent once after the resume", async () => {
  const caller = await asking();
  const { url, heard } = await addressOf(caller);
  const turn = (verb: string) => caller.post(`/v1/workflows/send-callback/${verb}`, { reason: "the receiver is down" });
  expect((await turn("pause")).status).toBe(202);
  const id = await ask(caller, async () => ({}), { callback_url: url });
  await reaches(id, "complete");
  const owed = await until(
    async () => {
      await keeperRound();
      return calls(caller.tenantId);
    },
    ({ length }) => length === 1,
  );
  await keeperRound();
  expect(await statusOf(owed[0]?.id ?? "")).toBe("accepted");
  expect(await heard()).toEqual([]);
  expect((await turn("resume")).status).toBe(202);
  await keeperRound();
  expect(endsIn(await heard(1))).toEqual(["1 complete"]);
  expect(await calls(caller.tenantId)).toHaveLength(1);
});
