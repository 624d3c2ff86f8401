import { assertMaySay } from "../../access/may-ask.ts";
import type { EngineEnv } from "../../contract/bindings.ts";
import { type Envelope, parseEnvelope } from "../../contract/envelope.ts";
import { codeOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { assertKnownFields } from "../../contract/message.ts";
import { payloadFingerprint, unpackPayload } from "../../contract/payload.ts";
import { queueFor } from "../../contract/queue.ts";
import { shortened } from "../../contract/text.ts";
import type { FullDeadLetter } from "../../inspect/dead-letters.ts";
import { type Acceptance, acceptance } from "../../intake/accept/accept.ts";
import { keyReused, sameWork } from "../../intake/accept/reuse.ts";
import { readMessage } from "../../intake/consume/read.ts";
import { envelopeIn, nameIn, textField } from "../../intake/letters/letter.ts";
import { query } from "../../store/d1/retry.ts";
import { selectKnown } from "../../store/instances/keys.ts";
import { isSamePayload } from "../../store/tombstones.ts";
import { carried } from "../../topology/carried.ts";
import type { Catalog } from "../../topology/catalog.ts";

export type Resendable = Awaited<ReturnType<typeof readAgain>>;

interface Resender {
  readonly tenantId: string;
  /** The scopes of an operator's token, which limit a correction; null for a repair, which is code of the deployment. */
  readonly scopes: readonly string[] | null;
}

type ReadableLetter = Pick<FullDeadLetter, "queue" | "reason" | "body">;

/**
 * Reads a dead letter's message, or its correction, like a new message. Errors: those of an invalid message; `forbidden` for a correction
 * outside the token's scopes.
 */
export async function readAgain(
  env: EngineEnv,
  catalog: Catalog,
  { tenantId, scopes }: Resender,
  letter: ReadableLetter,
  correction: unknown,
) {
  const body = correction === undefined ? letter.body : correction;
  const read = readMessage(body, (type) => {
    const definition = carried(catalog, letter.queue, parseEnvelope(body).kind, type);
    // An operator is the author of a correction, so the token needs the type's scopes.
    if (correction !== undefined && scopes !== null) assertMaySay({ scopes }, definition);
    return definition;
  });
  assertSameIdentity(catalog, tenantId, letter, read.envelope);
  // A missing or invalid payload is refused before the replay, because the run would fail and keep the key.
  const payload = await payloadOf(env, read);
  if (correction !== undefined) assertCorrection(letter, read, payload);
  if (read.envelope.kind === "event") assertRoutesTake(catalog, read.definition.type, payload);
  // The outbox that sent the message deleted the message at the capture, so the engine's outbox sends the message now. A replay begins a
  // new chain of messages.
  const { outbox: _outbox, path: _path, ...envelope } = read.envelope;
  const queue = queueFor(read.definition.queue, envelope);
  const command = envelope.kind === "command" ? acceptance(catalog.performer(envelope.message_type), envelope, queue, { payload }) : null;
  // The fingerprint of the captured message; null if the message is not readable.
  const original = envelopeIn(letter.body);
  const before = original ? payloadFingerprint(original) : null;
  if (command) await assertKeyIsFree(env, catalog, command, before);
  else if (letter.reason === "idempotency_key_reused") await assertMayStart(env, catalog, envelope);
  return { envelope, command, before, queue };
}

type ReadLetter = ReturnType<typeof readMessage>;

/**
 * A replay may change a message's content, never its identity: tenant, key, source, kind and type. A dead letter that was captured because
 * its key belongs to another message cannot be sent again. Errors: `forbidden`, `invalid_envelope`, `idempotency_key_reused`.
 */
function assertSameIdentity(catalog: Catalog, tenantId: string, letter: ReadableLetter, envelope: Envelope): void {
  if (envelope.tenant_id !== tenantId) {
    throw new MillraceError(
      "forbidden",
      "The message belongs to another tenant: set tenant_id to your tenant, or let that tenant's operator replay it.",
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
  if (letter.reason === "idempotency_key_reused" && mayBeKeyOf(catalog, envelope)) throw keyReused(envelope);
}

/** True if the error may be about the message's key, and not about a key that a route's code has derived from an event. */
function mayBeKeyOf(catalog: Catalog, { kind, message_type }: Envelope): boolean {
  return kind === "command" || catalog.subscribers(message_type).targets.some((target) => target.do === "signal");
}

const OWN_MARKS = ["acceptance", "replay", "outbox"] as const;

/**
 * Validates a correction as strictly as a command over HTTP. The correction must have the derived subject and no unknown fields. Of the
 * engine's internal fields, only the fields of the captured message are allowed. Errors: `invalid_payload`, `invalid_envelope`.
 */
function assertCorrection(letter: ReadableLetter, { definition, envelope }: ReadLetter, payload: unknown): void {
  if (envelope.payload_ref === undefined) assertKnownFields(definition, envelope.schema_version, envelope.payload_inline);
  const refused = (path: string, message: string) =>
    new MillraceError("invalid_envelope", `The ${path} of the correction ${message}.`, { issues: [{ path, message }] });
  for (const mark of OWN_MARKS) {
    if (envelope[mark] === undefined || envelope[mark] === textField(letter.body, mark)) continue;
    throw refused(mark, "is set by the engine: keep it unchanged, or remove it");
  }
  const subject = definition.subject(payload);
  if (envelope.subject !== subject && envelope.subject !== nameIn(letter.body, "subject")) {
    throw refused("subject", `is derived from the payload: write "${shortened(subject, 200)}"`);
  }
}

/** True if a correction may change the field: an unknown type, a kind that does not fit the type, each field of an unreadable message. */
function isMistake(catalog: Catalog, letter: ReadableLetter, field: string): boolean {
  const type = nameIn(letter.body, "message_type");
  const kinds = type === undefined ? [] : catalog.kindsOf(type);
  if (field === "message_type") return kinds.length === 0;
  return field === "kind" && kinds.length > 0 && !kinds.some((kind) => kind === nameIn(letter.body, "kind"));
}

/** The key must be free, or belong to this dead letter or to an equal message. Errors: `idempotency_key_reused`. */
async function assertKeyIsFree(env: EngineEnv, catalog: Catalog, command: Acceptance, before: string | null): Promise<void> {
  const [row] = await query<{ fingerprint: string; status: string }>(env.DB, selectKnown([command.id]));
  if (row === undefined || isSamePayload(row.fingerprint, command.fingerprint) || row.fingerprint === before) return;
  // The replay of a command returns the status `pruned`. An event would be captured again.
  if (row.status === "pruned" && command.envelope.kind === "command") return;
  if (!(await sameWork(env, catalog, [command])).has(command)) throw keyReused(command.envelope);
}

/** Errors: `idempotency_key_reused` if another message has the key of an instance that the event starts. */
async function assertMayStart(env: EngineEnv, catalog: Catalog, event: Envelope): Promise<void> {
  for (const target of catalog.subscribers(event.message_type).targets) {
    if (target.do === "start") await assertKeyIsFree(env, catalog, acceptance(target.workflow, event, null), null);
  }
}

/** Errors: `invalid_envelope` for a reference to a payload that R2 does not contain; `invalid_payload`. */
async function payloadOf(env: EngineEnv, { definition, envelope, payload }: ReadLetter): Promise<unknown> {
  if (envelope.payload_ref === undefined) return payload;
  return unpackPayload(env.PAYLOADS, definition, envelope).catch((error) => {
    if (codeOf(error) !== "payload_missing") throw error;
    const issues = [{ path: "payload_ref", message: "refers to no stored payload of this tenant" }];
    throw new MillraceError("invalid_envelope", messageOf(error), { issues });
  });
}

/**
 * Refuses an event if its routes would derive an invalid command from its payload, because it would become a dead letter again. Commands
 * that depend on a route's code or lookup are not checked. Errors: `invalid_payload`, with the issues of the command's payload.
 */
function assertRoutesTake(catalog: Catalog, type: string, payload: unknown): void {
  for (const target of catalog.subscribers(type).targets) {
    if (target.do !== "send" || target.derived === undefined) continue;
    try {
      target.command.from(target.derived(payload));
    } catch (error) {
      const issues = error instanceof MillraceError ? error.detail.issues : undefined;
      const said = `The route of ${type} cannot send ${target.command.type}: ${messageOf(error)} Fix the route, or correct the message.`;
      throw new MillraceError("invalid_payload", said, issues && { issues });
    }
  }
}
