import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, inject, it, onTestFinished, vi } from "vitest";
import { type Json, send, until } from "../../api/client.ts";
import type { Done, Trouble } from "../../desk/desk.ts";

/** A Worker that welcomes customers, with its callers. */
export interface Welcoming {
  worker: { queue(batch: MessageBatch, env: never, ctx: ExecutionContext): unknown };
  tenantId: string;
  token: string;
  /** SQL that expires the claims of dead attempts, as the passage of time would. */
  expire: string;
  /** The table of its audit. */
  audit: string;
  /** The message type of its command. */
  command: string;
  /** The name of its queue. */
  queue: string;
  /** The final event. The chain of the page emits none. */
  event: string | undefined;
}

const deskUrl = inject("deskUrl");
Object.assign(env, { DESK_URL: deskUrl });

let customers = 0;

/**
 * The contract of the chain of docs/write-a-chain.md, tested on any implementation through HTTP and queues, with the desk's record as the
 * evidence.
 */
export function keepsItsPromises(opened: () => Promise<Welcoming>): void {
  it("a command requested twice and delivered three times opens one account, sends one mail, and emits one event", async () => {
    const world = await enter(opened);
    const first = await world.welcome();
    expect(first).toMatchObject({ status: 202, body: { replayed: false } });
    expect(await world.welcome()).toMatchObject({ status: 202, body: { replayed: true, instance_id: first.body.instance_id } });
    expect(await world.deliver([world.envelope(), world.envelope()])).toEqual({ acked: 2, retried: 0 });
    await world.reaches("complete");
    await world.deliver([world.envelope()]);
    await world.expectDone({ accounts: 1, mails: 1, rows: 1, events: 1 });
  });

  it("a command that another program sends to the queue is executed, and a malformed one is captured while the rest of the batch continues", async () => {
    const world = await enter(opened);
    const bad = { ...world.envelope(), idempotency_key: `${world.id}-bad`, payload_inline: { customer_id: world.id, email: "nowhere" } };
    const unknown = { ...world.envelope(), idempotency_key: `${world.id}-odd`, message_type: "customer.wellcome" };
    const nothing = { hello: "world", tenant_id: world.tenantId };
    expect(await world.deliver([bad, world.envelope(), unknown, nothing])).toEqual({ acked: 4, retried: 0 });
    await world.welcome();
    await world.reaches("complete");
    await world.expectDone({ accounts: 1, mails: 1, rows: 1, events: 1 });
    const { body } = await world.call("GET", "/v1/dead-letters");
    const reasons = body.items.map(({ reason }: Json) => reason).toSorted();
    expect(reasons).toEqual(["invalid_envelope", "invalid_payload", "unknown_message_type"]);
  });

  it("a captured command is executed when it is replayed with a correction, and not when it is still invalid", async () => {
    const world = await enter(opened);
    await world.deliver([{ ...world.envelope(), payload_inline: { customer_id: world.id, email: "nowhere" } }]);
    const { body } = await world.call("GET", "/v1/dead-letters");
    const replay = `/v1/dead-letters/${body.items[0].id}/replay`;
    expect(await world.call("POST", replay, { reason: "as it came" })).toMatchObject({ status: 422 });
    expect(await world.call("POST", replay, { reason: "corrected", body: world.envelope() })).toMatchObject({ status: 202 });
    expect((await world.call("POST", replay, { reason: "again", body: world.envelope() })).status).not.toBe(500);
    await world.welcome();
    await world.reaches("complete");
    await world.expectDone({ accounts: 1, mails: 1, rows: 1, events: 1 });
  });

  it("a key that another payload uses is refused, by the API and on the queue", async () => {
    const world = await enter(opened);
    await world.welcome();
    await world.reaches("complete");
    expect(await world.welcome("other@example.com")).toMatchObject({ status: 422, body: { code: "idempotency_key_reused" } });
    const other = { ...world.envelope(), payload_inline: { customer_id: world.id, email: "other@example.com" } };
    expect(await world.deliver([other])).toEqual({ acked: 1, retried: 0 });
    const { body } = await world.call("GET", "/v1/dead-letters");
    expect(body.items).toMatchObject([{ reason: "idempotency_key_reused" }]);
    await world.expectDone({ accounts: 1, mails: 1, rows: 1, events: 1 });
  });

  it("an account whose response was lost is looked up before a repeat: one account is opened", async () => {
    const world = await enter(opened);
    await world.trouble({ what: "accounts", how: "hangs up", times: 1 });
    await world.welcome();
    await world.reaches("complete");
    await world.expectDone({ accounts: 1, mails: 1, rows: 1, events: 1 });
    expect(await world.row()).toMatchObject({ account: (await world.did("accounts"))[0]?.id });
  });

  it("a mail whose response was lost is never repeated: an operator confirms it, and the confirmation is recorded", async () => {
    const world = await enter(opened);
    await world.trouble({ what: "mails", how: "hangs up", times: 1 });
    await world.welcome();
    await world.reaches("in_doubt");
    await world.expectDone({ accounts: 1, mails: 1, rows: 0, events: 0 });
    expect(await world.resolve("confirm")).toMatchObject({ status: 202 });
    await world.reaches("complete");
    await world.expectDone({ accounts: 1, mails: 1, rows: 1, events: 1 });
    expect(await world.row()).toMatchObject({ mail: "seen by tess" });
  });

  it("a mail whose process died before the record is not sent again: an operator decides", async () => {
    const world = await enter(opened);
    const death = failOnce("INSERT INTO customers", "before");
    await world.welcome();
    await until(death.happened, Boolean);
    await world.reaches("in_doubt", true);
    await world.expectDone({ accounts: 1, mails: 1, rows: 0, events: 0 });
    expect(await world.resolve("confirm")).toMatchObject({ status: 202 });
    await world.reaches("complete");
    await world.expectDone({ accounts: 1, mails: 1, rows: 1, events: 1 });
  });

  it("a step whose record was committed, but whose commit response was lost, uses the record", { timeout: 60_000 }, async () => {
    const world = await enter(opened);
    const loss = failOnce("INSERT INTO customers", "after");
    await world.welcome();
    await until(loss.happened, Boolean);
    await world.reaches("complete");
    await world.expectDone({ accounts: 1, mails: 1, rows: 1, events: 1 });
  });

  it("a mail that an operator reports as not sent is sent", async () => {
    const world = await enter(opened);
    await world.trouble({ what: "mails", how: "hangs up", times: 1 });
    await world.welcome();
    await world.reaches("in_doubt");
    expect(await world.resolve("reject")).toMatchObject({ status: 202 });
    await world.reaches("complete");
    await world.expectDone({ accounts: 1, mails: 2, rows: 1, events: 1 });
  });

  it("a mail that is refused until its retries end is reported with its step and the reason; a retry keeps the account and sends one mail", async () => {
    const world = await enter(opened);
    await world.trouble({ what: "mails", how: "refuses", times: 2 });
    await world.welcome();
    expect(await world.reaches("errored")).toMatchObject({ error: { step: "send welcome", upstream_status: 423 } });
    await world.expectDone({ accounts: 1, mails: 0, rows: 0, events: 0 });
    const retry = () => world.call("POST", `/v1/instances/${world.instance()}/retry`, { reason: "the desk is open again" });
    expect(await retry()).toMatchObject({ status: 202 });
    await world.reaches("complete");
    expect(await retry()).toMatchObject({ status: 409 });
    await world.expectDone({ accounts: 1, mails: 1, rows: 1, events: 1 });
    const audited = await env.DB.prepare(`SELECT verb, reason, applied_at FROM ${world.audit} WHERE target = ?1 ORDER BY at`)
      .bind(world.instance())
      .all();
    expect(audited.results[0]).toMatchObject({ verb: "retry", reason: "the desk is open again", applied_at: expect.any(Number) });
  });
}

/** Makes the next atomic write that contains this SQL fail, before or after it had an effect. */
function failOnce(sql: string, when: "before" | "after"): { happened: () => Promise<boolean> } {
  const prototype = Object.getPrototypeOf(env.DB) as D1Database;
  const original = prototype.batch;
  let happened = false;
  prototype.batch = async function <T>(this: D1Database, statements: D1PreparedStatement[]) {
    const meant = !happened && statements.some((statement) => JSON.stringify(statement).includes(sql));
    happened ||= meant;
    const results = meant && when === "before" ? [] : await original.call(this, statements);
    if (meant) throw new Error("The process died.");
    return results as D1Result<T>[];
  };
  onTestFinished(() => {
    prototype.batch = original;
  });
  return { happened: async () => happened };
}

/** A unique customer of a test, with its actions. */
async function enter(opened: () => Promise<Welcoming>) {
  const { worker, tenantId, token, expire, audit, command, queue, event } = await opened();
  const id = `customer-${++customers}`;
  let instance = "";
  const customer = `${tenantId}/${id}`;
  const call = (method: string, path: string, body?: unknown) =>
    send(path, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  const did = async (what: Done["what"]): Promise<Done[]> =>
    (await fetch(`${deskUrl}/${what}?${new URLSearchParams({ customer })}`)).json();
  const rows = async () =>
    (await env.DB.prepare("SELECT account, mail FROM customers WHERE tenant_id = ?1 AND id = ?2").bind(tenantId, id).all()).results;
  return {
    id,
    tenantId,
    audit,
    call,
    did,
    instance: () => instance,
    row: async () => (await rows())[0],
    trouble: (one: Omit<Trouble, "customer">) =>
      fetch(`${deskUrl}/troubles`, { method: "POST", body: JSON.stringify({ ...one, customer }) }),
    async welcome(email = "ada@example.com") {
      const answer = await call("POST", "/v1/commands", { type: command, payload: { customer_id: id, email } });
      instance = answer.body.instance_id ?? instance;
      return answer;
    },
    envelope: () => ({
      schema_version: 1,
      message_type: command,
      kind: "command",
      source: "shop",
      correlation_id: id,
      causation_id: "shop",
      idempotency_key: id,
      subject: id,
      tenant_id: tenantId,
      created_at: "2026-10-01T09:30:00.000Z",
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      payload_inline: { customer_id: id, email: "ada@example.com" },
    }),
    async deliver(bodies: object[]) {
      const messages = bodies.map((body) => ({ id: crypto.randomUUID(), timestamp: new Date(), attempts: 1, body }));
      const batch = createMessageBatch(queue, messages);
      const ctx = createExecutionContext();
      await worker.queue(batch, env as never, ctx);
      const { ackAll, explicitAcks, retryMessages } = await getQueueResult(batch, ctx);
      return { acked: ackAll ? bodies.length : explicitAcks.length, retried: retryMessages.length };
    },
    async reaches(status: string, expiring = false) {
      const look = async () => {
        if (expiring) await env.DB.prepare(expire).run();
        return call("GET", `/v1/instances/${instance}`);
      };
      const { body } = await until(look, (seen) => seen.body.status === status);
      expect(body.status, JSON.stringify(body)).toBe(status);
      return body;
    },
    async resolve(verb: "confirm" | "reject") {
      const { body } = await call("GET", "/v1/effects?state=in_doubt");
      const output = verb === "confirm" ? { output: { id: "seen by tess" } } : {};
      return call("POST", `/v1/effects/${body.items[0].key}/${verb}`, { reason: "their books say so", ...output });
    },
    /** The desk's own record, and the chain's records: rows, and events confirmed by their consumer. */
    async expectDone(expected: { accounts: number; mails: number; rows: number; events: number }) {
      const look = async () => {
        const { body } = await call("GET", `/v1/instances/${instance}/events`);
        const events = body.items.filter(({ confirmed }: Json) => confirmed).length;
        return { accounts: (await did("accounts")).length, mails: (await did("mails")).length, rows: (await rows()).length, events };
      };
      // The sweep resends an event with an interrupted relay about ten seconds later.
      const events = event === undefined ? 0 : expected.events;
      await vi.waitFor(async () => expect(await look()).toEqual({ ...expected, events }), { timeout: 40_000, interval: 100 });
      const { body } = await call("GET", `/v1/instances/${instance}/events`);
      expect(body.items.map(({ message_type }: Json) => message_type)).toEqual(Array(events).fill(event));
    },
  };
}
