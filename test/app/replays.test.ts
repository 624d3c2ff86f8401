import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { describe, expect, it } from "vitest";
import type { MessageDefinition } from "../../packages/millrace/src/contract/message.ts";
import { app } from "../../src/catalog.ts";
import { ALL_SCOPES, type Caller, callerWith, expectProblem, fresh, type Json } from "../api/client.ts";
import { seedInstance, seedLetter } from "../api/seed.ts";
import { EVENTS, MESSAGES, messageOf } from "./messages.ts";
import { settled } from "./other-tenant.ts";
import { type Names, payloadsOf } from "./payloads.ts";

/** The content of a text is irrelevant here if its schema accepts it. */
const NAMES: Names = new Proxy<Record<string, string>>(
  {
    trace_id: "a".repeat(32),
    url: "https://pages.example.com/a",
    post_url: "https://a.example.com/1",
    person: `forgotten-${"a".repeat(32)}`,
    delivery_id: "d".repeat(32),
  },
  { get: (known, field) => known[String(field)] ?? "a-name" },
);

const reason = "a test";

function payloadOf(definition: MessageDefinition, { tenantId }: Caller): Json {
  const names = new Proxy(NAMES, { get: (known, field) => (field === "tenant_id" ? tenantId : known[String(field)]) });
  return payloadsOf(definition, names)[0];
}

/** A dead letter of a valid message, with one changed part. */
async function letterOf(caller: Caller, definition: MessageDefinition, said: object = {}, why = "exhausted") {
  const message = messageOf(definition, caller.tenantId, NAMES, payloadOf(definition, caller), { idempotency_key: fresh() });
  const id = await seedLetter(caller.tenantId, { body: { ...message, ...said }, queue: definition.queue.name, reason: why });
  return {
    id,
    asItCame: () => caller.post(`/v1/dead-letters/${id}/replay`, { reason }),
    replay: (change: object, by = caller) => by.post(`/v1/dead-letters/${id}/replay`, { reason, body: { ...message, ...change } }),
  };
}

/** No message was sent, and every dead letter can still be settled. */
async function nothingSent({ tenantId }: Caller): Promise<void> {
  const found = env.DB.prepare(
    `SELECT (SELECT count(*) FROM millrace_instances WHERE tenant_id = ?1) AS instances,
       (SELECT count(*) FROM millrace_outbox WHERE body->>'tenant_id' = ?1) AS messages,
       (SELECT count(*) FROM millrace_dead_letters WHERE tenant_id = ?1 AND state <> 'open') AS settled`,
  );
  expect(await found.bind(tenantId).first()).toEqual({ instances: 0, messages: 0, settled: 0 });
}

/** Messages that only the deployment's own code sends: no token can correct such a message. */
const isClosed = ({ access }: MessageDefinition) => access?.scope === null;

const targetsOf = ({ type, kind }: MessageDefinition) => (kind === "event" ? app.subscribers(type).targets : []);
const startedBy = (definition: MessageDefinition) => targetsOf(definition).flatMap((one) => (one.do === "start" ? [one.workflow] : []));

/** Of the other events, only the code of their routes can throw `idempotency_key_reused`, about another key. */
function isWorkOfItsKey(definition: MessageDefinition): boolean {
  return definition.kind === "command" || targetsOf(definition).some((target) => target.do === "signal");
}

/** Expects that a message is accepted as its type, or that it cannot be corrected; payload errors are found after that. */
function expectRead(answer: Parameters<typeof expectProblem>[0], definition: MessageDefinition): void {
  if (isClosed(definition)) expectProblem(answer, 403, "forbidden");
  else expectProblem(answer, 422, "invalid_payload");
}

const others = (definition: MessageDefinition) => MESSAGES.filter((one) => one !== definition);

/**
 * Of the other messages, one of each kind that a replay could distinguish: by its kind, by whether it is on the same queue, and by whether
 * it is closed.
 */
function sortsOf(definition: MessageDefinition): MessageDefinition[] {
  const sort = (one: MessageDefinition) => `${one.kind} ${one.queue.name === definition.queue.name} ${isClosed(one)}`;
  return [...Map.groupBy(others(definition), sort).values()].flatMap(([first]) => first ?? []);
}
const flipped = ({ kind }: MessageDefinition) => (kind === "command" ? "event" : "command");

describe.each(MESSAGES)("A replay of $type", (definition) => {
  const closed = isClosed(definition);

  it("a replay validates the payload, and keeps tenant, key and source", async () => {
    const [caller, other] = [await callerWith(), await callerWith()];
    const letter = await letterOf(caller, definition);
    expectRead(await letter.replay({ payload_inline: 7 }), definition);
    for (const [path, value] of [
      ["source", "ledger"],
      ["idempotency_key", "another"],
    ] as const) {
      const answer = await letter.replay({ [path]: value });
      if (closed) expectProblem(answer, 403, "forbidden");
      else expect(expectProblem(answer, 422, "invalid_envelope").issues).toMatchObject([{ path }]);
    }
    expectProblem(await letter.replay({ tenant_id: other.tenantId }), 403, "forbidden");
    expectProblem(await letter.replay({}, other), 404, "dead_letter_not_found");
    await nothingSent(caller);
    await nothingSent(other);
  });

  it("a replay keeps its type and kind, and so its queue", async () => {
    const caller = await callerWith();
    const letter = await letterOf(caller, definition);
    expectProblem(await letter.replay({ kind: flipped(definition) }), 404, "unknown_message_type");
    for (const one of sortsOf(definition)) {
      const change = { message_type: one.type, kind: one.kind, payload_inline: payloadOf(one, caller) };
      const answer = await letter.replay(change);
      if (one.queue.name !== definition.queue.name) expectProblem(answer, 404, "unknown_message_type");
      else if (isClosed(one)) expectProblem(answer, 403, "forbidden");
      else expect(expectProblem(answer, 422, "invalid_envelope").issues).toMatchObject([{ path: "message_type" }]);
    }
    await nothingSent(caller);
  });

  it("a replay cannot become a message of another queue, of another tenant, or with the key of another payload", async () => {
    const [caller, other] = [await callerWith([...ALL_SCOPES]), await callerWith()];
    const elsewhere = others(definition).find(({ queue }) => queue.name !== definition.queue.name);
    const strayed = await letterOf(caller, definition, { message_type: elsewhere?.type, kind: elsewhere?.kind });
    const answer = await strayed.replay({});
    if (closed) expectProblem(answer, 403, "forbidden");
    else expectProblem(answer, 422, "invalid_envelope");
    const nobodys = await letterOf(caller, definition, { tenant_id: "No Tenant" });
    await env.DB.prepare("UPDATE millrace_dead_letters SET tenant_id = NULL WHERE id = ?1").bind(nobodys.id).run();
    expectProblem(await nobodys.replay({ tenant_id: other.tenantId }), 403, "forbidden");
    if (isWorkOfItsKey(definition)) {
      const reused = await letterOf(caller, definition, {}, "idempotency_key_reused");
      expectProblem(await reused.asItCame(), 422, "idempotency_key_reused");
    }
    await nothingSent(caller);
    await nothingSent(other);
  });

  it("a replay can correct an unknown type or kind, with the token's own scopes", async () => {
    const caller = await callerWith();
    for (const mistake of [{ message_type: "nobody.knows" }, { message_type: undefined, kind: 7 }, { kind: flipped(definition) }]) {
      expectRead(await (await letterOf(caller, definition, mistake)).replay({ payload_inline: 7 }), definition);
    }
    await nothingSent(caller);
  });
});

it.each(EVENTS.filter((definition) => startedBy(definition).length > 0))(
  "the replay of $type is refused while its key belongs to an instance with another payload",
  async (definition) => {
    const caller = await callerWith();
    const { id, asItCame } = await letterOf(caller, definition, {}, "idempotency_key_reused");
    const letter = await env.DB.prepare("SELECT body->>'idempotency_key' AS key FROM millrace_dead_letters WHERE id = ?1").bind(id).first();
    for (const { name } of startedBy(definition)) {
      const seeded = await seedInstance(caller.tenantId, { workflow: name });
      const started = ids.instance(caller.tenantId, name, String(letter?.key));
      await env.DB.prepare("UPDATE millrace_instances SET id = ?2 WHERE id = ?1").bind(seeded, started).run();
    }
    expectProblem(await asItCame(), 422, "idempotency_key_reused");
  },
);

it("a message that only the deployment's own code may send is replayed unchanged, by an operator with no other scope", async () => {
  const caller = await callerWith(["operate"]);
  const closed = MESSAGES.filter((definition) => isClosed(definition) && definition.kind === "event");
  expect(closed.length).toBeGreaterThan(0);
  for (const definition of closed) {
    const { status, body } = await (await letterOf(caller, definition)).asItCame();
    expect({ type: definition.type, status, body }).toMatchObject({ status: 202, body: { sent: true } });
  }
  await settled(caller.tenantId);
});
