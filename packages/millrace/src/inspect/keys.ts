import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { instanceId } from "../contract/ids.ts";
import { payloadFingerprint } from "../contract/payload.ts";
import { among, fragment, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { statedId } from "../intake/accept/stated.ts";
import { envelopeIn } from "../intake/letters/letter.ts";
import type { Operator } from "../store/actions.ts";
import { namedBatch } from "../store/d1/named.ts";
import type { Row } from "../store/d1/retry.ts";
import type { LetterState } from "../store/dead-letters.ts";
import { FAILED, type InstanceStatus, SETTLED } from "../store/instances/status.ts";
import { ENDED_DAYS, FAILED_DAYS, STATED_DAYS, TOMBSTONE_DAYS } from "../store/kept-days.ts";
import { selectStatedAt } from "../store/stated-events.ts";
import { selectPruned } from "../store/tombstones.ts";

/** The holder of a key: an instance, the tombstone of a pruned one, or an event from outside. Each workflow has its own keys. */
export interface KeyHolder {
  kind: "instance" | "tombstone" | "event";
  /** The id of the instance, pruned or not, or of the event. */
  id: string;
  name: string;
  /** `stated` for an event. */
  status: InstanceStatus | "pruned" | "stated";
  correlationId: string | null;
  /** SHA-256 of the canonical payload. A repeated message under the key must have the same one. */
  fingerprint: string;
  /** Deliveries of its message. More than one are duplicates, which changed nothing. Null if not recorded. */
  deliveries: number | null;
  /** Milliseconds since the epoch; for a tombstone, the day of the pruning. */
  since: number;
  /** When its row is removed, at the earliest; null while it has not ended, and without a row. */
  rowUntil: number | null;
  /** When the key is free again, at the earliest; null while it has not ended. */
  keyUntil: number | null;
}

export interface CapturedUnderKey {
  deadLetterId: string;
  queue: string;
  messageType: string | null;
  /** `idempotency_key_reused` if another payload has the key. */
  reason: string;
  state: LetterState;
  /** Of its payload; null if that is unreadable or too large. */
  fingerprint: string | null;
  attempts: number;
  firstAt: number;
  capturedAt: number;
}

export interface KeyView {
  holders: KeyHolder[];
  captured: CapturedUnderKey[];
  truncated: boolean;
}

const DAY_MS = 86_400_000;
const MOST_LETTERS = 20;
/** Longest letter with a parsed payload, in characters. */
const READ_CHARACTERS = 200_000;

const LETTER = fragment(`id, queue, message_type, reason, state, attempts, first_at, captured_at,
  iif(length(body) <= ${READ_CHARACTERS}, body, NULL) AS body`);

export interface KeyNames {
  readonly workflows: readonly string[];
  readonly events: readonly string[];
}

/**
 * The tenant's holders of a key. The key is looked up by its hash for each workflow and event of the deployment, which are few. Errors:
 * `key_not_found`.
 */
export async function describeKey(env: Pick<EngineEnv, "DB">, { tenantId }: Operator, key: string, names: KeyNames): Promise<KeyView> {
  const workflows = new Map(names.workflows.map((name) => [instanceId(tenantId, name, key), name]));
  const events = new Map(names.events.map((type) => [statedId(tenantId, type, key), type]));
  const found = await namedBatch(env.DB, {
    instances: sql`
      SELECT id, workflow, status, correlation_id, fingerprint, deliveries, accepted_at, updated_at FROM millrace_instances
      WHERE id IN ${among([...workflows.keys()])} AND +tenant_id = ${tenantId}`,
    pruned: selectPruned([...workflows.keys()]),
    stated: selectStatedAt([...events.keys()]),
    letters: sql`
      SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_key
      WHERE tenant_id = ${tenantId} AND idempotency_key = ${key} ORDER BY captured_at DESC, id DESC LIMIT ${MOST_LETTERS + 1}`,
    // The message of an event from outside has the event's own name. Each of its queues has at most one letter of it, and one per replay.
    lettersOfEvents: sql`
      SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_key
      WHERE tenant_id = ${tenantId} AND idempotency_key IN ${among([...events.keys()])} LIMIT ${MOST_LETTERS + 1}`,
  });
  const holders = [
    ...found.instances.map(instanceHolder),
    ...found.pruned.map((row) => tombstoneHolder(row, workflows.get(String(row.id)) ?? "")),
    ...found.stated.map((row) => eventHolder(row, events.get(String(row.id)) ?? "")),
  ];
  const captured = [...found.letters, ...found.lettersOfEvents].map(letterUnderKey).sort((a, b) => b.capturedAt - a.capturedAt);
  if (holders.length + captured.length === 0) {
    const said = `No message has the key ${beginning(key, 64)}. If a command derives its key from the payload, search for the derived key, which the instance shows.`;
    throw new MillraceError("key_not_found", said);
  }
  return { holders, captured: captured.slice(0, MOST_LETTERS), truncated: captured.length > MOST_LETTERS };
}

function instanceHolder(row: Row): KeyHolder {
  const status = row.status as InstanceStatus;
  const days = SETTLED.has(status) ? ENDED_DAYS : FAILED.has(status) ? FAILED_DAYS : undefined;
  const rowUntil = days === undefined ? null : Number(row.updated_at) + days * DAY_MS;
  return {
    kind: "instance",
    id: String(row.id),
    name: String(row.workflow),
    status,
    correlationId: String(row.correlation_id),
    fingerprint: String(row.fingerprint),
    deliveries: Number(row.deliveries),
    since: Number(row.accepted_at),
    rowUntil,
    keyUntil: rowUntil === null ? null : rowUntil + TOMBSTONE_DAYS * DAY_MS,
  };
}

function tombstoneHolder(row: Row, name: string): KeyHolder {
  const since = Number(row.pruned_day) * DAY_MS;
  const gone = { correlationId: null, deliveries: null, rowUntil: null };
  const keyUntil = since + TOMBSTONE_DAYS * DAY_MS;
  return { kind: "tombstone", id: String(row.id), name, status: "pruned", fingerprint: String(row.fingerprint), since, keyUntil, ...gone };
}

function eventHolder(row: Row, name: string): KeyHolder {
  const since = Number(row.stated_at);
  const until = since + STATED_DAYS * DAY_MS;
  return {
    kind: "event",
    id: String(row.id),
    name,
    status: "stated",
    correlationId: String(row.correlation_id ?? row.id),
    fingerprint: String(row.fingerprint),
    deliveries: null,
    since,
    rowUntil: until,
    keyUntil: until,
  };
}

function letterUnderKey(row: Row): CapturedUnderKey {
  return {
    deadLetterId: String(row.id),
    queue: String(row.queue),
    messageType: row.message_type as string | null,
    reason: String(row.reason),
    state: row.state as LetterState,
    fingerprint: fingerprintIn(row.body),
    attempts: Number(row.attempts),
    firstAt: Number(row.first_at),
    capturedAt: Number(row.captured_at),
  };
}

function fingerprintIn(body: unknown): string | null {
  if (typeof body !== "string") return null;
  const envelope: Envelope | undefined = envelopeIn(JSON.parse(body));
  return envelope === undefined ? null : payloadFingerprint(envelope);
}
