import { describe, expect, it } from "vitest";
import { derivedNames } from "../../../src/messages/fact.ts";
import { callerWith, fresh, type Json, reaches, until } from "../../api/client.ts";
import { seedRules } from "../facts/derived.ts";
import { endpoint, hurried, ledger, outcome, received, tell } from "./hook.ts";

const REASON = { reason: "the receiver works again" };

describe("A receiver that fails", () => {
  it("a fact that matches an endpoint is recorded at once as webhook_triggered, although the receiver fails", async () => {
    const caller = await callerWith();
    const { hook, id, delivery } = await endpoint(caller);
    await tell(hook, { treatments: [{ status: 503, times: 1 }] });
    const fact = await outcome(caller.tenantId);
    const [match, ...more] = await ledger(caller.tenantId, id, 1);
    const pending = await delivery("pending");
    expect(match).toMatchObject({
      type: "webhook_triggered",
      payload: { endpoint_id: id, delivery_id: pending.id, fact_id: fact.fact_id },
    });
    expect([more, pending.state]).toEqual([[], "pending"]);
  });

  it.each([
    { how: "answers 500", treatment: { status: 500, text: "no\0pe" }, error: "The receiver answered 500.", answer: "nope" },
    {
      how: "accepts the request and closes the connection",
      treatment: { mode: "drop" as const },
      error: "cannot be reached, or closed the connection",
      answer: null,
    },
    // Each attempt takes as long as the timeout of a response.
    { how: "never answers", treatment: { mode: "hang" as const }, times: 1, error: "did not respond within 5 s.", answer: null },
    {
      how: "redirects",
      treatment: { status: 302, headers: { location: "http://169.254.169.254/latest/meta-data" } },
      error: "redirects are not followed",
      answer: "",
    },
  ])(
    "a receiver that fails and $how gets the delivery again under the same id, and delays no other",
    async ({ treatment, times = 2, error, answer }) => {
      await using _ = await hurried();
      const caller = await callerWith();
      const failing = await endpoint(caller);
      const fine = await endpoint(caller);
      await tell(failing.hook, { treatments: [{ ...treatment, times }] });
      await outcome(caller.tenantId);
      await fine.delivery("sent");
      const sent = await failing.delivery("sent");
      const requests = await received(failing.hook, times + 1);
      expect(requests.map(({ id }) => id)).toEqual(Array(times + 1).fill(sent.id));
      expect(new Set(requests.map(({ body }) => body)).size).toBe(1);
      expect(requests.every(({ verified }) => verified[0])).toBe(true);
      expect(sent.attempts.map(({ attempt }: Json) => attempt)).toEqual(requests.map((_, nth) => nth + 1));
      expect(sent.attempts.at(-1)).toMatchObject({ status: 204, error: null });
      expect(sent.attempts[0].error).toContain(error);
      expect(sent.attempts[0].answer).toBe(answer);
      expect(await received(fine.hook)).toHaveLength(1);
    },
  );

  it("a receiver that fails at every attempt makes the delivery's instance errored and leaves a fact; an operator's retry sends the same id again", async () => {
    await using _ = await hurried();
    const caller = await callerWith();
    const { hook, id, delivery } = await endpoint(caller);
    await tell(hook, { treatments: [{ status: 503, times: 6 }] });
    const fact = await outcome(caller.tenantId);
    const failed = await delivery("failed");
    const instance = await reaches(caller, failed.id, "errored");
    expect(instance.error).toMatchObject({ step: "post webhook", message: expect.stringContaining("answered 503"), upstream_status: 503 });
    expect(failed.attempts).toHaveLength(6);
    const before = await ledger(caller.tenantId, id, 2);
    expect(before).toMatchObject([
      { type: "webhook_triggered" },
      { type: "webhook_failed", payload: { fact_id: fact.fact_id, status: 503, reason: expect.stringContaining("503") } },
    ]);

    expect((await caller.post(`/v1/instances/${failed.id}/retry`, REASON)).status).toBe(202);
    const sent = await delivery("sent");
    expect(sent.attempts.at(-1)).toMatchObject({ attempt: 7, status: 204 });
    const requests = await received(hook, 7);
    expect(new Set(requests.map(({ id }) => id))).toEqual(new Set([failed.id]));
    expect(await ledger(caller.tenantId, id, 3)).toMatchObject([{}, {}, { type: "webhook_sent", payload: { attempts: 7 } }]);
    await reaches(caller, failed.id, "complete");
  });

  it("a failed delivery whose endpoint is disabled before the operator's retry is skipped: two facts report it", async () => {
    await using _ = await hurried();
    const caller = await callerWith();
    const { hook, id, path, delivery } = await endpoint(caller);
    await tell(hook, { treatments: [{ status: 500, times: 6 }] });
    await outcome(caller.tenantId);
    const failed = await delivery("failed");
    await reaches(caller, failed.id, "errored");
    await caller.call("DELETE", path);
    expect((await caller.post(`/v1/instances/${failed.id}/retry`, REASON)).status).toBe(202);
    await delivery("skipped");
    expect(await ledger(caller.tenantId, id, 3)).toMatchObject([
      { type: "webhook_triggered" },
      { type: "webhook_failed", payload: { status: 500 } },
      { type: "webhook_failed", payload: { status: null, reason: "The endpoint is deleted." } },
    ]);
    expect(await received(hook)).toHaveLength(6);
  });

  // The step's own first delay is 10 to 11 seconds.
  it.concurrent.each([
    ["12", 12, 11_900],
    ["0", 0, 9_900],
    ["86400", 3600, null],
  ])(
    "a receiver that requests %s seconds with 429 gets the next request after that time, after the step's delay at least and an hour at most",
    async (...row) => {
      const [named, asked, leastMs] = row;
      const caller = await callerWith();
      const { hook, delivery } = await endpoint(caller);
      await tell(hook, { treatments: [{ status: 429, headers: { "retry-after": named }, times: 1 }] });
      await outcome(caller.tenantId);
      await received(hook, 1);
      const { attempts } = await delivery(leastMs === null ? "pending" : "sent");
      expect(attempts[0].error).toBe(`The receiver answered 429 and asked for ${asked} seconds.`);
      if (leastMs !== null) expect(Date.parse(attempts[1].at) - Date.parse(attempts[0].at)).toBeGreaterThanOrEqual(leastMs);
    },
  );

  it.each(["flood", "endless"] as const)("a very long response of a failing receiver (%s) is read up to one kilobyte", async (mode) => {
    const caller = await callerWith();
    const { hook, delivery } = await endpoint(caller);
    await tell(hook, { treatments: [{ mode, times: 1 }] });
    await outcome(caller.tenantId);
    const { attempts } = await delivery("sent");
    expect(attempts).toMatchObject([{ status: 200 }]);
    expect(attempts[0].answer.length).toBeGreaterThan(0);
    expect(attempts[0].answer.length).toBeLessThanOrEqual(1024);
  });
});

describe("A fact whose charge fails permanently", () => {
  it("a fact whose charge fails permanently is delivered to each endpoint, for any outcome of its dead letter, and each webhook_triggered names its delivery", async () => {
    const caller = await callerWith();
    const { tenantId } = caller;
    await seedRules(tenantId, 1, 0, [{ name: "all", when: [], charge: { cents: 30 } }]);
    const endpoints = [await endpoint(caller), await endpoint(caller)];
    const [fact_id, entity] = [fresh("poison"), `account/${fresh("a")}`];
    // Another fact has the name of its charge.
    const { charge } = derivedNames({ fact_id, entity });
    await outcome(tenantId, { fact_id: charge, entity: "account/a1", type: "charge", payload: { account: "a1", amount_cents: 1 } });
    await outcome(tenantId, { fact_id, entity });
    const letters = async () => (await caller.get("/v1/dead-letters?queue=fact-processing")).body.items as Json[];
    const opened = (count: number) => until(letters, (found) => found.length === count);
    const matches = () =>
      Promise.all(
        endpoints.map(async ({ id, delivery }) => {
          const sent = await delivery("sent");
          const [first] = await ledger(tenantId, id, 2);
          expect(first).toMatchObject({ type: "webhook_triggered", payload: { fact_id, delivery_id: sent.id } });
          return sent.id as string;
        }),
      );
    const ids = await matches();
    const [letter] = await opened(1);
    expect(letter).toMatchObject({ reason: "idempotency_key_reused", message_type: "fact.outcome" });

    const replay = `/v1/dead-letters/${letter?.id}/replay`;
    expect((await caller.post(replay, { ...REASON, dry_run: true })).body).toMatchObject({ outcome: "follows", refused: null });
    expect((await caller.post(replay, REASON)).body).toMatchObject({ sent: true });
    // The charge is still refused: another dead letter, which is skipped.
    const again = (await opened(1)).find(({ id }) => id !== letter?.id) ?? (await until(letters, ([one]) => one?.id !== letter?.id))[0];
    expect((await caller.post(`/v1/dead-letters/${again?.id}/skip`, REASON)).body).toMatchObject({ skipped: true });
    expect(await matches()).toEqual(ids);
    for (const { hook, id } of endpoints) {
      expect(await received(hook, 1)).toHaveLength(1);
      expect((await ledger(tenantId, id, 2)).map(({ type }) => type)).toEqual(["webhook_triggered", "webhook_sent"]);
    }
  });
});
