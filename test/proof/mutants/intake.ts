// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const TAKE = "packages/millrace/src/intake/consume/take.ts";
const REUSED = "packages/millrace/src/intake/consume/carry-on.ts";
const OUTBOX = "packages/millrace/src/store/outbox.ts";
const STATED = "packages/millrace/src/intake/accept/stated.ts";
const STATED_TEST = "test/engine/intake/stated.test.ts";

/** Messages that become more than one instance, or none, or another message's instance. */
export const INTAKE = mutantsOf("intake", {
  "the API treats another payload under a used key as a repeat": {
    file: "packages/millrace/src/intake/accept/enqueue.ts",
    find: "isSamePayload(row.fingerprint, one.fingerprint) ||",
    put: "row !== undefined ||",
    killedBy: "random",
  },
  "each of several gathered requests with one key is answered as new": {
    file: "packages/millrace/src/recorder/gather.ts",
    find: " && !created.has(row.id)",
    put: "",
    killedBy: "test/engine/intake/gather.test.ts",
  },
  "another payload on the queue is dropped without an error": {
    file: REUSED,
    find: "const reused = others.filter(({ one }) => !same.has(one));",
    put: "const reused = others.filter(({ one }) => !same.has(one) && same.has(one));",
    killedBy: "random",
  },
  "another payload under an event's key is dropped without an error": {
    file: REUSED,
    find: ".filter(({ envelope }) => reused.has(envelope))",
    put: ".filter(({ envelope }) => anew.has(envelope))",
    killedBy: "random",
  },
  "each delivery creates a separate instance": {
    file: "packages/millrace/src/intake/accept/accept.ts",
    find: "id: id ?? instanceId(envelope.tenant_id, workflow, envelope.idempotency_key),",
    put: "id: instanceId(envelope.tenant_id, workflow, envelope.idempotency_key + envelope.created_at),",
    killedBy: "random",
  },
  "a malformed message is dropped": {
    file: "packages/millrace/src/intake/letters/leave.ts",
    find: "if (given.length === 0) return;",
    put: 'for (const { message } of given) outcomes.set(message, { did: "captured" });\n  if (given.length >= 0) return;',
    killedBy: "random",
  },
  "a delivery that the database did not store counts as a repeat": {
    file: TAKE,
    find: "outcomes.set(message, becauseOf(error));",
    put: 'outcomes.set(message, { did: "duplicate" });',
    killedBy: "test/engine/intake/neighbours.test.ts",
  },
  "a stream of numbered messages continues from any number": {
    file: "packages/millrace/src/store/sequences.ts",
    find: "CASE WHEN millrace_sequences.last = excluded.before THEN excluded.last END",
    put: "excluded.last",
    killedBy: "test/engine/intake/order.test.ts",
  },
  "a stream of numbered messages starts with a later number": {
    file: "packages/millrace/src/store/sequences.ts",
    find: "value->>'from' = 0 OR EXISTS",
    put: "1 OR EXISTS",
    killedBy: "test/engine/intake/order.test.ts",
  },
  "a numbered message is processed before the message that precedes it": {
    file: "packages/millrace/src/intake/consume/in-order.ts",
    find: "const isNext = place === next;",
    put: "const isNext = true;",
    killedBy: "test/engine/intake/order.test.ts",
  },
  "a message with an acceptance proof is processed alone at any attempt": {
    file: "packages/millrace/src/recorder/proof.ts",
    find: "if (proof === undefined || attempts !== 1) return false;",
    put: "if (proof === undefined) return false;",
    killedBy: "test/engine/intake/keys.test.ts",
  },
  "a message with an acceptance proof is processed alone at any age": {
    file: "packages/millrace/src/recorder/proof.ts",
    find: "return age < PROOF_VALID_MS && said.length",
    put: "return age >= 0 && said.length",
    killedBy: "test/engine/intake/keys.test.ts",
  },
  "an external event is acknowledged but not stored in the outbox": {
    file: OUTBOX,
    find: "FROM json_each(${rows}) WHERE NOT EXISTS (SELECT 1 FROM millrace_stated_events",
    put: "FROM json_each(${rows}) WHERE false AND NOT EXISTS (SELECT 1 FROM millrace_stated_events",
    killedBy: STATED_TEST,
  },
  "each repeat of an external event is sent": {
    file: OUTBOX,
    find: "FROM json_each(${rows}) WHERE NOT EXISTS (SELECT 1 FROM millrace_stated_events WHERE millrace_stated_events.id = unhex(value->>'id'))",
    put: "FROM json_each(${rows}) WHERE true",
    killedBy: STATED_TEST,
  },
  "another payload under the key of an external event counts as a repeat": {
    file: STATED,
    find: "return known.fingerprint === fingerprint || known.said === said;",
    put: "return known.fingerprint !== said || known.said !== fingerprint;",
    killedBy: STATED_TEST,
  },
  "two tenants share the keys of external events": {
    file: STATED,
    find: 'return digest("stated", tenantId, type, key);',
    put: 'return digest("stated", type, key, String(tenantId !== ""));',
    killedBy: STATED_TEST,
  },
  "every event type is accepted from external senders": {
    file: "packages/millrace/src/access/may-ask.ts",
    find: "if (scopes.some((scope) => scope === access?.scope)) return;",
    put: "if (scopes.length > 0) return;",
    killedBy: STATED_TEST,
  },
  "the key of an external event is deleted with its follow-ups": {
    file: "packages/millrace/src/store/stated-events.ts",
    find: "stated_at <= ${now} - ${keepMs}",
    put: "stated_at <= ${now} - ${keepMs / 10}",
    killedBy: STATED_TEST,
  },
  "a child waits for the slot of its own parent": {
    file: "packages/millrace/src/guard/record.ts",
    find: "if (child) await assertStarts(env, child);",
    put: "",
    killedBy: "test/engine/workflow/child-start.test.ts",
  },
  "a child waits for the slot of its parent's parent": {
    file: "packages/millrace/src/store/instances/children.ts",
    find: "UNION SELECT parent FROM millrace_instances JOIN above USING (id) WHERE parent IS NOT NULL)",
    put: ")",
    killedBy: "test/engine/workflow/child-start.test.ts",
  },
});
