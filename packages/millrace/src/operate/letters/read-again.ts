import { assertMaySay } from "../../access/may-ask.ts";
import type { EngineEnv } from "../../contract/bindings.ts";
import { type Envelope, parseEnvelope } from "../../contract/envelope.ts";
import { codeOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { assertKnownFields, type MessageDefinition } from "../../contract/message.ts";
import { payloadFingerprint, unpackPayload } from "../../contract/payload.ts";
import { queueFor } from "../../contract/queue.ts";
import { shortened } from "../../contract/text.ts";
import type { DeadLetterReader, DeadLetterRow } from "../../inspect/dead-letters.ts";
import { type Acceptance, acceptance } from "../../intake/accept/accept.ts";
import { keyReused, sameWork } from "../../intake/accept/reuse.ts";
import { readMessage } from "../../intake/consume/read.ts";
import { envelopeIn, nameIn, textField } from "../../intake/letters/letter.ts";
import { query } from "../../store/d1/retry.ts";
import { selectKnown } from "../../store/instances/keys.ts";
import { carried } from "../../topology/carried.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { assertRoutesTake } from "./assert-routes-take.ts";

/** A message that may be sent once more. */
export interface Resendable {
  envelope: Envelope;
  /** The queue that it goes to now. */
  queue: string;
  /** What it becomes; null for an event. */
  command: Acceptance | null;
  /** The fingerprint of the message as it was captured; null where that cannot be read. */
  before: string | null;
}

/** Who sends it. */
export interface Resender {
  readonly tenantId: string;
  /** Refuses a correction of what the sender may not say. Errors: `forbidden`. */
  readonly assertMaySay: (definition: MessageDefinition) => void;
}

/** What of a letter decides what may be sent in its place. */
export type ReadableLetter = Pick<DeadLetterRow, "queue" | "reason" | "body">;

/** An operator, who may correct what the token may say. */
export function operatorBy(by: DeadLetterReader): Resender {
  return { tenantId: by.tenantId, assertMaySay: (definition) => assertMaySay(by, definition) };
}

/**
 * Reads a dead letter's message as if it came now, or its correction, and refuses what may not be sent in its place. Errors: `forbidden`
 * for a correction that the token may not send, and whatever the message is refused for.
 */
export async function readAgain(
  env: EngineEnv,
  catalog: Catalog,
  by: Resender,
  letter: ReadableLetter,
  correction: unknown,
): Promise<Resendable> {
  const body = correction === undefined ? letter.body : correction;
  const read = readMessage(body, (type) => {
    const definition = carried(catalog, letter.queue, parseEnvelope(body).kind, type);
    // What is corrected is what the operator says: a door that is closed to the token stays so.
    if (correction !== undefined) by.assertMaySay(definition);
    return definition;
  });
  assertSameIdentity(catalog, by, letter, read.envelope);
  // A payload that is not there, or is none, is better said now than by the run: its key would be taken.
  const payload = await payloadOf(env, read);
  if (correction !== undefined) assertCorrection(letter, read, payload);
  if (read.envelope.kind === "event") assertRoutesTake(catalog, read.definition.type, payload);
  // Whoever kept the message has let it go when it was captured: from now on it is in our outbox. A person's word begins its chain anew.
  const { outbox: _outbox, path: _path, ...envelope } = read.envelope;
  const queue = queueFor(read.definition.queue, envelope);
  const command = envelope.kind === "command" ? acceptance(catalog.performer(envelope.message_type), envelope, queue) : null;
  const original = envelopeIn(letter.body);
  const before = original ? payloadFingerprint(original) : null;
  if (command) await assertKeyIsFree(env, catalog, command, before);
  return { envelope, command, before, queue };
}

type ReadLetter = ReturnType<typeof readMessage>;

/**
 * A replay may mend what a message says, never whose word it is: its tenant, key, source, kind and type stay. One that was captured because
 * its key is another's has no work of its own that could be sent again. Errors: `forbidden`, `invalid_envelope`, `idempotency_key_reused`.
 */
function assertSameIdentity(catalog: Catalog, by: Resender, letter: ReadableLetter, envelope: Envelope): void {
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
      `A replay cannot change ${field}: leave it unchanged. For other work, send a new command, then skip this dead letter.`,
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
function assertCorrection(letter: ReadableLetter, { definition, envelope }: ReadLetter, payload: unknown): void {
  if (envelope.payload_ref === undefined) assertKnownFields(definition, envelope.schema_version, envelope.payload_inline);
  const refused = (path: string, message: string) =>
    new MillraceError("invalid_envelope", `The ${path} of the correction ${message}.`, { issues: [{ path, message }] });
  for (const mark of OWN_MARKS) {
    if (envelope[mark] === undefined || envelope[mark] === textField(letter.body, mark)) continue;
    throw refused(mark, "is set by the engine: leave it unchanged, or leave it out");
  }
  const subject = definition.subject(payload);
  if (envelope.subject !== subject && envelope.subject !== nameIn(letter.body, "subject")) {
    throw refused("subject", `is derived from the payload: write "${shortened(subject, 200)}"`);
  }
}

/** A type that there is not may be mended, and a kind that its type has not. What cannot be read at all may be, too: it was nobody's. */
function isMistake(catalog: Catalog, letter: ReadableLetter, field: string): boolean {
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

/** Errors: `invalid_envelope` for a reference to what is not there, `invalid_payload`. */
async function payloadOf(env: EngineEnv, { definition, envelope, payload }: ReadLetter): Promise<unknown> {
  if (envelope.payload_ref === undefined) return payload;
  return unpackPayload(env.PAYLOADS, definition, envelope).catch((error) => {
    if (codeOf(error) !== "payload_missing") throw error;
    const issues = [{ path: "payload_ref", message: "refers to no stored payload of this tenant" }];
    throw new MillraceError("invalid_envelope", messageOf(error), { issues });
  });
}
