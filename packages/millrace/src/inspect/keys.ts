import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { instanceId } from "../contract/ids.ts";
import { payloadFingerprint } from "../contract/payload.ts";
import { component, rowOf, timestamp } from "../contract/row.ts";
import { among, fragment, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { statedId } from "../intake/accept/stated.ts";
import { envelopeIn } from "../intake/letters/letter.ts";
import type { Operator } from "../store/actions.ts";
import { namedBatch } from "../store/d1/named.ts";
import type { Row } from "../store/d1/retry.ts";
import { FAILED, INSTANCE_STATUSES, type InstanceStatus, SETTLED } from "../store/instances/status.ts";
import { ENDED_DAYS, FAILED_DAYS, STATED_DAYS, TOMBSTONE_DAYS } from "../store/kept-days.ts";
import { selectStatedAt } from "../store/stated-events.ts";
import { selectPruned } from "../store/tombstones.ts";
import { Fingerprint, signedFingerprint } from "./fingerprint.ts";
import type { KnownNames } from "./search/finder.ts";

export const holderStatus = z.enum([...INSTANCE_STATUSES, "pruned", "archived", "stated"]);

const KeyHolder = component("KeyHolder", {
  kind: z.enum(["instance", "tombstone", "event"]).describe("`tombstone`: the remaining record of the key of a pruned instance."),
  id: z.string().describe("The id of the instance (also of a pruned one) or of the event."),
  name: z.string().describe("The workflow or the event type. Each workflow and each event type has its own keys."),
  status: holderStatus.describe("`archived`: R2 contains the pruned instance, and `GET /v1/instances/{id}` shows it."),
  correlation_id: z.string().nullable(),
  fingerprint: Fingerprint,
  deliveries: z.int().nullable().describe("The number of deliveries of the message; null if it is not recorded."),
  since: timestamp.describe("When the key was taken; for a tombstone, the time of pruning."),
  row_expires_at: timestamp.nullable().describe("The earliest removal of the holder's row; null while the holder is running."),
  key_expires_at: timestamp.nullable().describe("The earliest time at which the key is free again; null while the holder is running."),
});
type KeyHolder = z.infer<typeof KeyHolder>;

const CapturedUnderKey = component("CapturedUnderKey", {
  dead_letter_id: z.string(),
  queue: z.string(),
  message_type: z.string().nullable(),
  reason: z.string().describe("`idempotency_key_reused`: the key belonged to another payload."),
  state: z.enum(["open", "replayed", "skipped"]),
  fingerprint: Fingerprint.nullable().describe("The fingerprint of the payload; null for an unreadable payload."),
  attempts: z.int(),
  first_at: timestamp,
  captured_at: timestamp,
});

export const KeyView = component("Key", {
  key: z.string(),
  holders: z.array(KeyHolder),
  captured: z.array(CapturedUnderKey).describe("The newest 20 dead letters with this key. A refused HTTP request leaves no row."),
  captured_truncated: z.boolean(),
});
type KeyView = z.infer<typeof KeyView>;

const DAY_MS = 86_400_000;
const MOST_LETTERS = 20;
/** A longer dead letter is not parsed. */
const READ_CHARACTERS = 200_000;

const LETTER = fragment(`id AS dead_letter_id, queue, message_type, reason, state, attempts, first_at, captured_at,
  iif(length(body) <= ${READ_CHARACTERS}, body, NULL) AS body`);

/** Like `findKey`, with signed fingerprints. Errors: `key_not_found` for a key without a holder and a dead letter. */
export async function describeKey(env: EngineEnv, by: Operator, key: string, names: KnownNames): Promise<KeyView> {
  const found = await findKey(env, by, key, names);
  if (found.holders.length + found.captured.length === 0) {
    const said = `No message has the key ${beginning(key, 64)}. If a command derives its key from the payload, search for the derived key, which the instance shows.`;
    throw new MillraceError("key_not_found", said);
  }
  const sign = (fingerprint: string) => signedFingerprint(env, by.tenantId, fingerprint);
  return {
    ...found,
    holders: found.holders.map((one) => ({ ...one, fingerprint: sign(one.fingerprint) })),
    captured: found.captured.map((one) => ({ ...one, fingerprint: one.fingerprint && sign(one.fingerprint) })),
  };
}

type KeyEnv = Pick<EngineEnv, "DB" | "ARCHIVE_AFTER_DAYS">;

/** Looks up the key's hash for each workflow and event of the deployment. */
export async function findKey(env: KeyEnv, { tenantId }: Operator, key: string, names: KnownNames): Promise<KeyView> {
  const workflows = new Map(names.workflows.map((name) => [instanceId(tenantId, name, key), name]));
  const events = new Map(names.events.map((type) => [statedId(tenantId, type, key), type]));
  const found = await namedBatch(env.DB, {
    instances: sql`
      SELECT id, workflow AS name, status, correlation_id, fingerprint, deliveries, accepted_at AS since, updated_at FROM millrace_instances
      WHERE id IN ${among([...workflows.keys()])} AND +tenant_id = ${tenantId}`,
    pruned: selectPruned([...workflows.keys()]),
    stated: selectStatedAt([...events.keys()]),
    letters: sql`
      SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_key
      WHERE tenant_id = ${tenantId} AND idempotency_key = ${key} ORDER BY captured_at DESC, id DESC LIMIT ${MOST_LETTERS + 1}`,
    // The message of an event from outside has the event's id as its key. Each queue has at most one dead letter of the original event, and
    // at most one of each replay.
    lettersOfEvents: sql`
      SELECT ${LETTER} FROM millrace_dead_letters INDEXED BY millrace_dead_letters_by_key
      WHERE tenant_id = ${tenantId} AND idempotency_key IN ${among([...events.keys()])} LIMIT ${MOST_LETTERS + 1}`,
  });
  const holders = [
    ...found.instances.map((row) => instanceHolder(row, Number(env.ARCHIVE_AFTER_DAYS) || undefined)),
    ...found.pruned.map((row) => tombstoneHolder(row, workflows.get(String(row.id)) ?? "")),
    ...found.stated.map((row) => eventHolder(row, events.get(String(row.id)) ?? "")),
  ];
  const captured = [...found.letters, ...found.lettersOfEvents]
    .toSorted((a, b) => Number(b.captured_at) - Number(a.captured_at))
    .map((row) => ({ ...rowOf(CapturedUnderKey, row), fingerprint: fingerprintIn(row.body) }));
  return { key, holders, captured: captured.slice(0, MOST_LETTERS), captured_truncated: captured.length > MOST_LETTERS };
}

function instanceHolder(row: Row, archived: number | undefined): KeyHolder {
  const status = row.status as InstanceStatus;
  const failed = FAILED.has(status) ? Math.max(FAILED_DAYS, archived ?? 0) : undefined;
  const days = SETTLED.has(status) ? (archived ?? ENDED_DAYS) : failed;
  const row_expires_at = days === undefined ? null : Number(row.updated_at) + days * DAY_MS;
  const key_expires_at = row_expires_at === null ? null : row_expires_at + TOMBSTONE_DAYS * DAY_MS;
  return rowOf(KeyHolder, { ...row, kind: "instance", row_expires_at, key_expires_at });
}

function tombstoneHolder(row: Row, name: string): KeyHolder {
  const since = Number(row.pruned_at);
  const gone = { correlation_id: null, deliveries: null, row_expires_at: null, key_expires_at: since + TOMBSTONE_DAYS * DAY_MS };
  return rowOf(KeyHolder, { ...row, kind: "tombstone", name, status: row.archived === 1 ? "archived" : "pruned", since, ...gone });
}

function eventHolder(row: Row, name: string): KeyHolder {
  const since = Number(row.stated_at);
  const until = since + STATED_DAYS * DAY_MS;
  const known = { correlation_id: row.correlation_id ?? row.id, deliveries: null, row_expires_at: until, key_expires_at: until };
  return rowOf(KeyHolder, { ...row, kind: "event", name, status: "stated", since, ...known });
}

function fingerprintIn(body: unknown): string | null {
  if (typeof body !== "string") return null;
  const envelope: Envelope | undefined = envelopeIn(JSON.parse(body));
  return envelope === undefined ? null : payloadFingerprint(envelope);
}
