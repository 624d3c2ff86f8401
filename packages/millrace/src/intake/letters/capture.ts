import { type EngineEnv, isBound } from "../../contract/bindings.ts";
import { stepOf } from "../../contract/cause.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { codeOf, detailOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { instanceId } from "../../contract/ids.ts";
import { payloadFingerprint } from "../../contract/payload.ts";
import { rowChunks, type Statement, sql } from "../../contract/sql.ts";
import { beginning } from "../../contract/text.ts";
import { noteDelivery } from "../../observe/deliveries.ts";
import type { Delivered } from "../../observe/delivery.ts";
import { atomically, query } from "../../store/d1/retry.ts";
import { type DeadLetter, insertDeadLetters } from "../../store/dead-letters.ts";
import { type FailedBefore, type FailedDelivery, forgetFailures, noteFailures, selectFailures } from "../../store/failed-deliveries.ts";
import { markDead } from "../../store/instances/accept.ts";
import type { Identity } from "../../store/instances/keys.ts";
import { watchAgain } from "../../store/instances/look.ts";
import { type InstanceStatus, UNSEEN } from "../../store/instances/status.ts";
import { confirm } from "../../store/outbox.ts";
import { isSamePayload } from "../../store/tombstones.ts";
import { confirmToSenders } from "../../topology/hooks.ts";
import { hideIn } from "../../topology/marks.ts";
import { keyReused } from "../accept/reuse.ts";
import type { Intake } from "../consumer.ts";
import { askPlatform } from "../platform.ts";
import { isOfOneMessage } from "./hopeless.ts";
import { deadLetter, envelopeIn, letterId, nameIn } from "./letter.ts";

/** A message that gets no further attempt, with the error that causes this. */
export interface Hopeless {
  readonly message: Pick<Message, "id" | "body" | "timestamp">;
  readonly error: unknown;
  readonly attempts: number;
  /** True when the message's content is invalid, so that its work can never start. False when the message has used up its tries. */
  readonly refused: boolean;
  /** The reason of the dead letter. Default: the code of the error. */
  readonly reason?: string;
  /**
   * True when the error of the last delivery is unknown. Then the dead letter gets a recorded error of an earlier delivery, if such an
   * error exists.
   */
  readonly isUnheard?: true;
}

/**
 * The outcome of a message. `captured`: the message is stored as a dead letter. `kept`: the message needs no delivery, because the keeper
 * starts its instance or its instance runs. `failed`: nothing was written for this message, so that the message must be redelivered. The
 * other messages are not affected.
 */
export type Fate = "captured" | "kept" | { readonly failed: unknown };

/**
 * Ends the processing of messages by one write. The write stores dead letters, marks the rows of commands that can never start, and
 * confirms the engine's outbox messages. Returns the fate of each message. A single message fails when the platform does not report whether
 * a refused command runs, or when the database refuses its dead letter. The function throws all other database failures. Writes before such
 * a failure remain.
 */
export async function capture(intake: Intake, hopeless: readonly Hopeless[]): Promise<Fate[]> {
  const { queue } = intake.consumer;
  const seen = hopeless.map(
    (one): Seen => ({ ...one, letter: letterId(queue.name, one.message.body), envelope: envelopeIn(one.message.body) }),
  );
  const [rows, before] = await Promise.all([rowsOf(intake, seen), failuresOf(intake.env, seen)]);
  const ends = await Promise.all(
    seen.map((one) => endOf(intake, one, rows.get(one.letter), before.get(one.letter)).catch((failed: unknown) => ({ failed }))),
  );
  const given = ends.filter((end): end is End => !("failed" in end));
  const refused = await store(intake, given);
  for (const [index, end] of ends.entries()) {
    if ("failed" in end || !end.letter || refused.has(end)) continue;
    const { message, attempts } = hopeless[index] as Hopeless;
    noteCaptured(intake, end.letter, message, attempts);
  }
  await intake.onCaptured?.(
    intake,
    given.filter((end) => !refused.has(end)).flatMap(({ letter }) => letter ?? []),
  );
  return ends.map((end) => ("failed" in end ? end : (refused.get(end) ?? (end.letter ? "captured" : "kept"))));
}

/** A message with the id of its dead letter, and its envelope if the envelope is valid. */
interface Seen extends Hopeless {
  readonly letter: string;
  readonly envelope: Envelope | undefined;
}

/** The rows that are written when the processing of a message ends. */
interface End {
  readonly envelope: Envelope | undefined;
  /** The dead letter; null when the message's row needs none. */
  readonly letter: DeadLetter | null;
  /** The row of the message's command, if this command can never start; otherwise null. */
  readonly dead: Identity | null;
  /** The id of the instance that the keeper must start; null without such an instance. */
  readonly kept: string | null;
  /** The recorded failures of the message's earlier deliveries. */
  readonly noted: FailedBefore | undefined;
}

/**
 * Determines the rows that are written for a message. Errors: `unavailable` when the platform does not report whether a refused command
 * runs.
 */
async function endOf(intake: Intake, seen: Seen, row: Owner | undefined, before: FailedBefore | undefined): Promise<End> {
  const { message, attempts, refused, reason, envelope } = seen;
  const isOld = seen.isUnheard && before !== undefined;
  const error = isOld ? saidBefore(before) : seen.error;
  const own = row !== undefined && envelope !== undefined && isSamePayload(row.fingerprint, payloadFingerprint(envelope));
  if (own && !(refused && (await neverStarted(intake, row)))) return { envelope, letter: null, dead: null, kept: row.id, noted: before };
  const hide = hideIn(intake.catalog, intake.consumer.queue.name, message.body);
  const why = row !== undefined && !own && envelope !== undefined ? keyReused(envelope) : error;
  const given = {
    queue: intake.consumer.queue.name,
    body: message.body,
    error: why,
    hide,
    attempts,
    firstAt: message.timestamp.getTime(),
    // If the message had a single attempt, that attempt failed just now.
    firstAttemptAt: before?.firstAt ?? (attempts === 1 ? Date.now() : null),
    lastAttemptAt: isOld ? before.lastAt : null,
    ...(reason !== undefined && { reason }),
  };
  return { envelope, letter: deadLetter({ ...given, instanceId: own ? row.id : null }), dead: own ? row : null, kept: null, noted: before };
}

/**
 * Writes the rows of all messages at once. When the database refuses one message, the list is halved until that message is isolated.
 * Returns the messages that the database refused.
 */
async function store(intake: Intake, ends: readonly End[]): Promise<ReadonlyMap<End, { failed: unknown }>> {
  try {
    await write(intake, ends);
    return new Map();
  } catch (failed) {
    if (!isOfOneMessage(failed)) throw failed;
    const [only] = ends;
    if (ends.length === 1 && only) return new Map([[only, { failed }]]);
    const half = Math.ceil(ends.length / 2);
    return new Map([...(await store(intake, ends.slice(0, half))), ...(await store(intake, ends.slice(half)))]);
  }
}

async function write({ env, catalog }: Intake, ends: readonly End[]): Promise<void> {
  const envelopes = ends.flatMap(({ envelope }) => envelope ?? []);
  const kept = ends.flatMap(({ kept: id }) => id ?? []);
  const dead = ends.flatMap(({ dead, letter }) =>
    dead && letter ? [{ id: dead.id, fingerprint: dead.fingerprint, letter: letter.id }] : [],
  );
  const noted = ends.flatMap(({ noted }) => noted ?? []);
  await atomically(env.DB, [
    ...rowChunks(ends.flatMap(({ letter }) => letter ?? [])).map((chunk) => insertDeadLetters(chunk)),
    ...(noted.length > 0 ? [forgetFailures(noted)] : []),
    ...(dead.length > 0 ? [markDead(dead)] : []),
    ...(kept.length > 0 ? [watchAgain(kept)] : []),
    ...confirm(envelopes),
  ]);
  await confirmToSenders(catalog.hooks, env, envelopes);
}

/** The row that already has a command's key. The id of the command's dead letter identifies this row in a result. */
interface Owner extends Identity {
  letter: string;
  workflow: string;
  status: InstanceStatus | "pruned";
  queue: string | null;
}

/** Finds the rows that have the keys of the given commands. A command without a workflow in the catalog is found by its correlation id. */
async function rowsOf(
  { env, catalog }: Intake,
  seen: readonly { letter: string; envelope: Envelope | undefined }[],
): Promise<Map<string, Owner>> {
  const commands = seen.flatMap(({ letter, envelope }) => {
    if (envelope?.kind !== "command") return [];
    const { tenant_id, correlation_id, message_type, idempotency_key } = envelope;
    const workflow = catalog.workflows.find(({ on }) => on.kind === "command" && on.type === message_type)?.name;
    const id = workflow === undefined ? null : instanceId(tenant_id, workflow, idempotency_key);
    return [{ letter, id, workflow, tenant_id, correlation_id, message_type, idempotency_key }];
  });
  if (commands.length === 0) return new Map();
  const asked = JSON.stringify(commands);
  const owners = await query<Owner>(
    env.DB,
    sql`
      SELECT c.value->>'letter' AS letter, i.id, i.fingerprint, i.workflow, i.status, i.queue
      FROM json_each(${asked}) c CROSS JOIN millrace_instances i ON i.id = c.value->>'id'
      UNION ALL
      SELECT c.value->>'letter', c.value->>'id', lower(hex(t.fingerprint)), c.value->>'workflow', 'pruned', NULL
      FROM json_each(${asked}) c CROSS JOIN millrace_tombstones t ON t.id = unhex(c.value->>'id')
      UNION ALL
      SELECT c.value->>'letter', i.id, i.fingerprint, i.workflow, i.status, i.queue
      FROM json_each(${asked}) c CROSS JOIN millrace_instances i ON i.tenant_id = c.value->>'tenant_id'
        AND i.correlation_id = c.value->>'correlation_id'
        AND i.message_type = c.value->>'message_type' AND i.idempotency_key = c.value->>'idempotency_key'
      WHERE c.value->>'id' IS NULL`,
  );
  return new Map(owners.map((owner) => [owner.letter, owner]));
}

/**
 * True for a command that was accepted for this queue and that never reached the platform. The function queries the platform, because an
 * older deployment may have started the command. A running instance must not be marked `dead`.
 */
async function neverStarted({ env, consumer: { queue } }: Intake, { id, workflow, status, queue: its }: Owner): Promise<boolean> {
  if (!UNSEEN.has(status) || its !== queue.name) return false;
  if (!isBound(env, workflow)) return true;
  const answer = await askPlatform(env, workflow, id);
  if (answer.status === "unreachable") throw new MillraceError("unavailable", answer.error ?? "The platform did not answer.");
  return answer.status === "unknown";
}

/** Maximum length of a stored error, in characters. */
const MAX_ERROR_CHARACTERS = 1000;

/** A delivery that failed and is retried. */
interface Failed {
  readonly message: Pick<Message, "body">;
  readonly error: unknown;
}

/**
 * Records the errors of failed deliveries. If the process dies during the last delivery, the dead letter shows the error of the preceding
 * delivery.
 */
export function noted(queue: string, failed: readonly Failed[]): Statement[] {
  const rows = failed.map(({ message: { body }, error }): FailedDelivery => {
    const { step = null, upstreamStatus = null } = detailOf(error);
    const said = { code: codeOf(error) ?? null, error: beginning(messageOf(error), MAX_ERROR_CHARACTERS) };
    return {
      tenantId: nameIn(body, "tenant_id") ?? "",
      letter: letterId(queue, body),
      ...said,
      step: step && stepOf(step),
      upstreamStatus,
    };
  });
  return rowChunks(rows).map(noteFailures);
}

/** A message that gets no further attempt. */
interface GivenUp {
  readonly message: Pick<Message, "body">;
  readonly letter: string;
  readonly attempts: number;
}

/**
 * The recorded errors of earlier deliveries, by id of the dead letter. A message that failed at its first attempt has no recorded error.
 */
async function failuresOf({ DB }: EngineEnv, givenUp: readonly GivenUp[]): Promise<ReadonlyMap<string, FailedBefore>> {
  const tried = givenUp.filter(({ attempts }) => attempts > 1);
  if (tried.length === 0) return new Map();
  const messages = tried.map(({ message: { body }, letter }) => ({ tenantId: nameIn(body, "tenant_id") ?? "", letter }));
  const rows = await query<FailedBefore>(DB, selectFailures(messages));
  return new Map(rows.map((row) => [row.letter, row]));
}

/** Converts a recorded failure to an error. */
function saidBefore({ code, error, step, upstreamStatus }: FailedBefore): Error {
  if (code === null) return new Error(error);
  return new MillraceError(code, error, { ...(step !== null && { step }), ...(upstreamStatus !== null && { upstreamStatus }) });
}

/** Logs that a message became a dead letter, without the redacted values. */
export function noteCaptured({ env, catalog, takenAt }: Intake, letter: DeadLetter, message: Delivered, attempt: number): void {
  const { id: deadLetter, queue, reason: code } = letter;
  const hide = hideIn(catalog, queue, message.body);
  const error = hide(letter.error);
  const upstreamStatus = letter.upstreamStatus ?? undefined;
  noteDelivery(env, { queue, message, attempt, takenAt, outcome: "captured", deadLetter, code, error, upstreamStatus, hide });
}
