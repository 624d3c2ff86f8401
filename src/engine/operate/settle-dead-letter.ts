import { assertMaySay } from "../access/may-ask.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { type Envelope, parseEnvelope } from "../contract/envelope.ts";
import { codeOf, MillraceError, messageOf } from "../contract/errors.ts";
import { outboxId } from "../contract/ids.ts";
import { assertKnownFields } from "../contract/message.ts";
import { payloadFingerprint, unpackPayload } from "../contract/payload.ts";
import { sql } from "../contract/sql.ts";
import { shortened } from "../contract/text.ts";
import { type DeadLetterReader, type DeadLetterRow, getDeadLetter } from "../inspect/dead-letters.ts";
import { type Acceptance, acceptance } from "../intake/accept.ts";
import { envelopeIn, nameIn, textField } from "../intake/letter.ts";
import { readMessage } from "../intake/read.ts";
import { keyReused, sameWork } from "../intake/reuse.ts";
import { relay } from "../recorder/relay.ts";
import { applied, audit } from "../store/actions.ts";
import { settleLetter } from "../store/dead-letters.ts";
import { acceptAgain, skipInstance } from "../store/instances/accept.ts";
import { selectKnown } from "../store/instances/keys.ts";
import { namedBatch } from "../store/named.ts";
import { dropOutgoing, type Outgoing, sendBehind } from "../store/outbox.ts";
import { atomically, query } from "../store/retry.ts";
import { carried } from "../topology/carried.ts";
import type { Catalog } from "../topology/catalog.ts";
import { aboutLetter } from "./about-letter.ts";

/** What a replay did: sent the message again, or found nothing left to do. */
export interface Replayed {
  actionId: string;
  instanceId: string | null;
  /** False when the work had been done meanwhile, or the letter was already settled: nothing was sent. */
  sent: boolean;
  why: string;
}

/**
 * Sends a dead letter back to its queue under its own key, if wished with a corrected body; it is validated first. The letter,
 * the audit row and the message move together, so that two clicks are one replay and a crash loses nothing.
 * Errors: `dead_letter_not_found`, `forbidden` for a correction that the token may not send, and whatever the message is refused for now:
 * then the letter stays open.
 */
export async function replayDeadLetter(
  env: EngineEnv,
  catalog: Catalog,
  by: DeadLetterReader,
  id: string,
  options: { reason: string; body?: unknown },
): Promise<Replayed> {
  const letter = await getDeadLetter(env, by, id);
  const actionId = crypto.randomUUID();
  if (letter.state !== "open") {
    await atomically(env.DB, [
      settleLetter(id, "replayed"),
      audit(by, { id: actionId, verb: "replay", target: id, instanceId: letter.instanceId, reason: options.reason }, false),
    ]);
    return { actionId, instanceId: letter.instanceId, sent: false, why: `The letter is already ${letter.state}.` };
  }
  const body = options.body === undefined ? letter.body : options.body;
  const read = readMessage(body, (type) => {
    const definition = carried(catalog, letter.queue, parseEnvelope(body).kind, type);
    // What is corrected is what the operator says: a door that is closed to the token stays so.
    if (options.body !== undefined) assertMaySay(by, definition);
    return definition;
  });
  assertSameIdentity(catalog, by, letter, read.envelope);
  // A payload that is not there, or is none, is better said now than by the run: its key would be taken.
  const payload = await payloadOf(env, read);
  if (options.body !== undefined) assertCorrection(letter, read, payload);
  // Whoever kept the message has let it go when it was captured: from now on it is in our outbox, and older copies of it are not it.
  const { outbox: _, ...kept } = read.envelope;
  const envelope: Envelope = { ...kept, replay: actionId };
  const command = envelope.kind === "command" ? acceptance(catalog.performer(envelope.message_type).name, envelope, letter.queue) : null;
  const original = envelopeIn(letter.body);
  const before = original ? payloadFingerprint(original) : null;
  if (command) await assertKeyIsFree(env, catalog, command, before);
  const outgoing: Outgoing = { id: outboxId(envelope), queue: letter.queue, delaySeconds: 0, body: JSON.stringify(envelope) };
  const { row, action } = await namedBatch(env.DB, {
    settled: settleLetter(id, "replayed"),
    audited: audit(
      by,
      {
        id: actionId,
        verb: "replay",
        target: id,
        instanceId: command?.id ?? null,
        reason: options.reason,
        detail: { edited: options.body !== undefined },
      },
      false,
    ),
    again: command ? acceptAgain(command, before, actionId) : sendBehind(outgoing, actionId),
    row: command ? sql`SELECT status FROM instances WHERE id = ${command.id}` : [],
    action: applied(actionId),
  });
  const won = action[0]?.result === "applied";
  // A key without a row is a pruned one: its tombstone lets nothing run under it again.
  const status = command ? String(row[0]?.status ?? "pruned") : "accepted";
  const sent = won && status === "accepted";
  if (sent) await relay(env, [outgoing]);
  return {
    actionId,
    instanceId: command?.id ?? null,
    sent,
    why: sent
      ? "The message is on its queue again."
      : won
        ? `Its instance is already ${status}: nothing was sent.`
        : "Somebody else settled the letter first.",
  };
}

/**
 * Gives a dead letter up, on purpose and on record. Its instance, if it never started, is skipped with it; what the catalog has to
 * say about that is committed in the same write. Errors: `dead_letter_not_found`.
 */
export async function skipDeadLetter(
  env: EngineEnv,
  catalog: Catalog,
  by: DeadLetterReader,
  id: string,
  reason: string,
): Promise<{ actionId: string; skipped: boolean }> {
  const letter = await getDeadLetter(env, by, id);
  const actionId = crypto.randomUUID();
  const message = envelopeIn(letter.body);
  const known = { ...letter, tenantId: by.tenantId, correlationId: nameIn(letter.body, "correlation_id") };
  const said = await aboutLetter(env, catalog, known, { because: reason, actor: by.actor, source: "operator" });
  const { action } = await namedBatch(env.DB, {
    settled: settleLetter(id, "skipped"),
    audited: audit(by, { id: actionId, verb: "skip", target: id, instanceId: letter.instanceId, reason }, false),
    given: message ? [skipInstance(letter.instanceId, payloadFingerprint(message), actionId), dropOutgoing(message, actionId)] : [],
    said: said.map((message) => sendBehind(message, actionId)),
    action: applied(actionId),
  });
  const skipped = action[0]?.result === "applied";
  if (skipped) await relay(env, said);
  return { actionId, skipped };
}

/**
 * A replay may mend what a message says, never whose word it is: its tenant, key, source, kind and type stay. One that was captured because
 * its key is another's has no work of its own that could be sent again. Errors: `forbidden`, `invalid_envelope`, `idempotency_key_reused`.
 */
function assertSameIdentity(catalog: Catalog, by: DeadLetterReader, letter: DeadLetterRow, envelope: Envelope): void {
  if (envelope.tenant_id !== by.tenantId) {
    throw new MillraceError(
      "forbidden",
      "The message belongs to another tenant: set tenant_id to your own, or let that tenant's operator replay it.",
      { issues: [{ path: "tenant_id", message: "is not yours" }] },
    );
  }
  for (const field of ["idempotency_key", "source", "kind", "message_type"] as const) {
    const was = nameIn(letter.body, field);
    if (was === undefined || envelope[field] === was || isMistake(catalog, letter, field)) continue;
    throw new MillraceError(
      "invalid_envelope",
      `A replay keeps its message's ${field}: leave it as it is. For other work, send a new command, and skip this letter.`,
      { issues: [{ path: field, message: `must stay "${shortened(was, 200)}"` }] },
    );
  }
  if (letter.reason === "idempotency_key_reused") throw keyReused(envelope);
}

const OWN_MARKS = ["acceptance", "replay", "outbox"] as const;

/**
 * A correction is read as strictly as a command over HTTP: its payload has no fields that nobody knows, its subject follows from that, and
 * the engine's own marks are not made up. What came with the message may stay. Errors: `invalid_payload`, `invalid_envelope`.
 */
function assertCorrection(letter: DeadLetterRow, { definition, envelope }: ReadLetter, payload: unknown): void {
  if (envelope.payload_ref === undefined) assertKnownFields(definition, envelope.schema_version, envelope.payload_inline);
  const refused = (path: string, message: string) =>
    new MillraceError("invalid_envelope", `The ${path} of the correction ${message}.`, { issues: [{ path, message }] });
  for (const mark of OWN_MARKS) {
    if (envelope[mark] === undefined || envelope[mark] === textField(letter.body, mark)) continue;
    throw refused(mark, "is the engine's own mark: leave it as it came, or out");
  }
  const subject = definition.subject(payload);
  if (envelope.subject !== subject && envelope.subject !== nameIn(letter.body, "subject")) {
    throw refused("subject", `follows from its payload: write "${shortened(subject, 200)}"`);
  }
}

/** A type that there is not may be mended, and a kind that its type has not. What cannot be read at all may be, too: it was nobody's. */
function isMistake(catalog: Catalog, letter: DeadLetterRow, field: string): boolean {
  const type = nameIn(letter.body, "message_type");
  const kinds = type === undefined ? [] : catalog.kindsOf(type);
  if (field === "message_type") return kinds.length === 0;
  return field === "kind" && kinds.length > 0 && !kinds.some((kind) => kind === nameIn(letter.body, "kind"));
}

/**
 * The row decides who has a key: it may be free, the letter's own, or that of the same work. Errors: `idempotency_key_reused` when
 * other work took it meanwhile.
 */
async function assertKeyIsFree(env: EngineEnv, catalog: Catalog, command: Acceptance, before: string | null): Promise<void> {
  const [row] = await query<{ fingerprint: string; status: string }>(env.DB, selectKnown([command.id]));
  if (row === undefined || row.status === "pruned" || row.fingerprint === command.fingerprint || row.fingerprint === before) return;
  if (!(await sameWork(env, catalog, [command])).has(command)) throw keyReused(command.envelope);
}

type ReadLetter = ReturnType<typeof readMessage>;

/** Errors: `invalid_envelope` for a reference to what is not there, `invalid_payload`. */
async function payloadOf(env: EngineEnv, { definition, envelope, payload }: ReadLetter): Promise<unknown> {
  if (envelope.payload_ref === undefined) return payload;
  return unpackPayload(env.PAYLOADS, definition, envelope).catch((error) => {
    if (codeOf(error) !== "payload_missing") throw error;
    const issues = [{ path: "payload_ref", message: "names nothing that is kept for this tenant" }];
    throw new MillraceError("invalid_envelope", messageOf(error), { issues });
  });
}
