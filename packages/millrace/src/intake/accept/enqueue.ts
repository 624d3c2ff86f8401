import { address } from "../../contract/address.ts";
import { assertReady, assertSendable, type EngineEnv, isElsewhere, workflowBinding } from "../../contract/bindings.ts";
import { crashPoint } from "../../contract/crash-points.ts";
import { assertDeclared } from "../../contract/declared.ts";
import { checkedTenant } from "../../contract/envelope.ts";
import { codeOf, MillraceError } from "../../contract/errors.ts";
import { fingerprintOf, instanceId } from "../../contract/ids.ts";
import { assertKnownFields, type CommandDefinition, checkedDelay, type DraftOptions, draftOf } from "../../contract/message.ts";
import { laneIn, MAX_DELAY_SECONDS, MAX_DUE_SECONDS, type QueueDefinition, queueFor } from "../../contract/queue.ts";
import type { RowStatement, Statement } from "../../contract/sql.ts";
import { nextHop } from "../../contract/trace.ts";
import { traceAccepted } from "../../observe/traces/message.ts";
import { acceptGathered, commitCommands, untilDue } from "../../recorder/gather.ts";
import { outgoing } from "../../recorder/proof.ts";
import { relay } from "../../recorder/relay.ts";
import { startInstances } from "../../recorder/start.ts";
import { acceptingCell } from "../../store/cells.ts";
import type { Identity, KeyHolder, KnownRow } from "../../store/instances/keys.ts";
import { isSamePayload } from "../../store/tombstones.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { hideIn } from "../../topology/marks.ts";
import { byIdentity, firstOf } from "../identity.ts";
import { type Acceptance, acceptance } from "./accept.ts";
import { beside } from "./beside.ts";
import { type AskedEnd, asEnvelopeSays, assertToCome } from "./ends.ts";
import { keyReused, sameWork } from "./reuse.ts";

interface RequestOptions extends DraftOptions, AskedEnd {
  /** The key that identifies the work, 1 to 500 characters. Default: the command's `key` derives the key from the payload. */
  idempotencyKey?: string | undefined;
  /** The correlation id. Default: the id that the command derives from its payload, or else a new id. */
  correlationId?: string | undefined;
  causationId?: string | undefined;
  /**
   * The start time, as an alternative to a delay. The format is ISO 8601 with an offset, and the time is at most 365 days from now, or 12
   * hours for a command of a lane. A past time means no delay.
   */
  runAt?: string | undefined;
  /** The caller's W3C trace context. If the context is missing or invalid, a new trace begins. */
  traceparent?: string | null | undefined;
  tracestate?: string | null | undefined;
  /**
   * A command with `high` starts at once, ahead of all queued commands. A command with `low` is delayed by the queue's `priority` setting,
   * in addition to the command's own delay. Default: `normal`. The option is refused when the consumer declares no priorities.
   */
  priority?: Priority | undefined;
}

/** A request for a command by the deployment's own code. The compiler checks the payload's type against the command's definition. */
export interface CommandRequest<Payload = unknown> extends Omit<RequestOptions, "called"> {
  /** The result of `defineCommand`, or the `command` of a workflow with an `input`. */
  // biome-ignore lint/suspicious/noExplicitAny: only the given payload is inferred, because the type uses the parsed one in both directions
  command: CommandDefinition<any, string, Payload>;
  payload: NoInfer<Payload>;
}

/** A command of an external request. The type of the command is a string, and the payload is not validated yet. */
export interface UntypedRequest extends RequestOptions {
  type: string;
  payload: unknown;
  /** The version of the payload's schema. Default: the present version. */
  schemaVersion?: number | undefined;
  /** True: a payload with unknown fields is refused. By default, unknown fields are removed from the payload. */
  exact?: boolean;
}

export const PRIORITIES = ["high", "normal", "low"] as const;
export type Priority = (typeof PRIORITIES)[number];

export interface Requester {
  tenantId: string;
  source: string;
}

export interface Accepted {
  instanceId: string;
  /** True when the command had been accepted before. Then no new instance was started. */
  replayed: boolean;
  /**
   * The status of the instance with this key: `accepted` for a new instance. `pruned`: the instance has ended, and retention has removed
   * its row. A repeated command does not restart an `errored` or `terminated` instance. An operator can retry such an instance.
   */
  status: KeyHolder["status"];
  /** The due time of a delayed command, in milliseconds; null for a command without a delay, and when the command's instance has ended. */
  dueAt: number | null;
  correlationId: string;
}

/**
 * Accepts commands. The commands' rows are committed in one D1 batch, then the commands' messages are sent. An accepted command runs even
 * if this process dies before sending the command's message. Returns one result or error per request, in the order of the requests. A
 * refused command changes nothing.
 *
 * `also`: statements of the app, made with `sql`, in the same batch:
 * - at least one command is new: the batch contains all statements of `also`, before the commands' rows;
 * - every command is a repeat or is refused: no statement of `also` is executed;
 * - a statement fails: no command is accepted, and the error of D1 is thrown.
 *
 * Errors per item: `unknown_message_type`, `invalid_payload`, `idempotency_key_reused`, and `config_invalid` for a missing binding or
 * `MILLRACE_KEY`. Thrown: `invalid_payload` for an invalid `tenantId`.
 */
export function enqueue<const Payloads extends readonly unknown[]>(
  env: EngineEnv,
  catalog: Catalog,
  by: Requester,
  requests: { readonly [At in keyof Payloads]: CommandRequest<Payloads[At]> },
  also: readonly (Statement | RowStatement)[] = [],
): Promise<(Accepted | MillraceError)[]> {
  return acceptCommands(
    env,
    catalog,
    checkedRequester(by),
    requests.map((request) => untyped(request)),
    also,
  );
}

/**
 * Accepts one command. `also` is written in the same D1 batch if the command is new, as with `enqueue`. A repeat of the command returns
 * `replayed: true` and writes nothing. Errors: as `enqueue`, thrown.
 */
export async function enqueueOne<Payload>(
  env: EngineEnv,
  catalog: Catalog,
  by: Requester,
  request: CommandRequest<Payload>,
  also: readonly (Statement | RowStatement)[] = [],
): Promise<Accepted> {
  return acceptCommand(env, catalog, checkedRequester(by), untyped(request), also);
}

function untyped<Payload>({ command, ...rest }: CommandRequest<Payload>): UntypedRequest {
  const isCommand = command?.kind === "command" && typeof command.type === "string";
  assertDeclared(isCommand, "`command` must be the result of defineCommand, or the `command` of a workflow with an `input`.");
  return { type: command.type, ...rest };
}

/**
 * Validates the tenant and the source of a command's requester. Errors: `config_invalid` for a missing field, `invalid_payload` for an
 * invalid tenant.
 */
function checkedRequester(by: Requester): Requester {
  const isGiven = typeof by?.tenantId === "string" && typeof by.source === "string";
  assertDeclared(isGiven, "Pass { tenantId, source } to enqueue a command: the tenant, and the name of the calling code, both strings.");
  checkedTenant(by.tenantId);
  return by;
}

/** Like `enqueue`, but each command is given by the name of its type, as in HTTP requests. */
export async function acceptCommands(
  env: EngineEnv,
  catalog: Catalog,
  by: Requester,
  requests: readonly UntypedRequest[],
  also: readonly (Statement | RowStatement)[] = [],
): Promise<(Accepted | MillraceError)[]> {
  const own = await acceptingCell(env, by.tenantId);
  const prepared = await Promise.all(requests.map((request) => prepare(own, catalog, by, request).catch(asRefusal)));
  const answers = await accept(own, catalog, requests, prepared, { also });
  return answers.map((answer) => answer ?? rowIsLost());
}

export async function acceptCommand(
  env: EngineEnv,
  catalog: Catalog,
  by: Requester,
  request: UntypedRequest,
  also: readonly (Statement | RowStatement)[] = [],
): Promise<Accepted> {
  const [answer = rowIsLost()] = await acceptCommands(env, catalog, by, [request], also);
  if (answer instanceof MillraceError) throw answer;
  return answer;
}

function rowIsLost(): MillraceError {
  return new MillraceError("invariant", "The database lacks the row of a command that was committed moments ago. Please report this.");
}

/** Statements to commit before a command's own row, and the condition for these statements and the row. */
export interface Hinge {
  also: readonly Statement[];
  provided: Statement;
}

/**
 * Accepts one command if the condition `provided` is true at the time of the write, after the statements in `also`. Returns undefined if
 * the condition was false and no row has the key. The function returns the errors of `enqueue` per item.
 */
export async function enqueueIf(
  env: EngineEnv,
  catalog: Catalog,
  by: Requester,
  request: UntypedRequest,
  hinge: (command: Identity) => Hinge,
): Promise<Accepted | MillraceError | undefined> {
  await acceptingCell(env, by.tenantId);
  const prepared = await prepare(env, catalog, by, request).catch(asRefusal);
  if (prepared instanceof MillraceError) return prepared;
  const [answer] = await accept(env, catalog, [request], [prepared], hinge(prepared));
  return answer;
}

async function accept(
  env: EngineEnv,
  catalog: Catalog,
  requests: readonly UntypedRequest[],
  prepared: readonly (Prepared | MillraceError)[],
  { also, provided }: { also: readonly (Statement | RowStatement)[]; provided?: Statement },
): Promise<(Accepted | MillraceError | undefined)[]> {
  const acceptances = prepared.filter((one): one is Prepared => !(one instanceof MillraceError));
  if (acceptances.length === 0) return prepared as MillraceError[];

  const startedAt = Date.now();
  await crashPoint("A01 before accept commits");
  const { rows, begun } = await (also.length === 0 && provided === undefined
    ? beside((isAlone) => writeAmongOthers(env, acceptances, isAlone))
    : write(env, acceptances, { also, provided }));
  const repeats = await repeatsAmong(env, catalog, prepared, requests, rows);
  await crashPoint("A02 accept committed, not answered");

  return prepared.map((one, index) => {
    if (one instanceof MillraceError) return one;
    const row = rows.get(one.id);
    if (row === undefined) return undefined;
    if (!repeats.has(one)) return keyReused(one.envelope);
    const replayed = !begun.has(one);
    const { envelope, queue } = one;
    const outcome = replayed ? "duplicate" : "accepted";
    const hide = hideIn(catalog, queue ?? "", envelope);
    traceAccepted(env, { request: requests[index] ?? {}, envelope, queue, outcome, startedAt, hide });
    const { status, due_at: dueAt, correlation_id: correlationId } = row;
    return { instanceId: one.id, replayed, status, dueAt, correlationId: correlationId ?? one.envelope.correlation_id };
  });
}

/** The rows of the commands' keys by id, and the commands that are new. The messages of new commands are sent. */
interface Begun {
  rows: ReadonlyMap<string, KnownRow>;
  begun: ReadonlySet<Acceptance>;
}

/**
 * Writes commands through the gatherer while this isolate accepts other commands. A lone caller writes its commands itself. So do
 * the callers of a gatherer that does not answer.
 */
async function writeAmongOthers(env: EngineEnv, acceptances: readonly Prepared[], isAlone: boolean): Promise<Begun> {
  if (isAlone || acceptances.some(({ goesAhead }) => goesAhead)) return write(env, acceptances);
  const gathered = await acceptGathered(env, acceptances);
  if ("isUnclear" in gathered) return write(env, acceptances, { isRepeated: gathered.isUnclear });
  return { rows: gathered, begun: newOf(acceptances, gathered) };
}

/**
 * Commits commands, then sends their messages. `isRepeated`: an earlier write of these commands has an unknown outcome, so the messages of
 * the commands that the earlier write created are sent again.
 */
async function write(
  env: EngineEnv,
  acceptances: readonly Prepared[],
  conditions: { also?: readonly (Statement | RowStatement)[]; provided?: Statement | undefined; isRepeated?: boolean } = {},
): Promise<Begun> {
  const texts = acceptances.map(({ row }) => row);
  const rows = await commitCommands(env.DB, acceptances, texts, conditions);
  await crashPoint("A03 accept committed, not enqueued");
  const begun = newOf(acceptances, rows);
  await begin(env, [...begun], rows);
  return { rows, begun };
}

/** Of several equal requests, also within one batch, only the first request is new. All later requests are reported as repeats. */
function newOf(acceptances: readonly Prepared[], rows: Begun["rows"]): Set<Prepared> {
  const created = byIdentity([...rows.values()].filter(({ held }) => held !== undefined));
  return new Set(firstOf(acceptances.filter((one) => created.has(one))));
}

/**
 * Starts high-priority commands directly. All other commands are sent to their queue. These include high-priority commands that must not
 * start yet or that the platform could not start.
 */
async function begin(env: EngineEnv, accepted: readonly Prepared[], rows: Begun["rows"]): Promise<void> {
  const isHeld = ({ id }: Prepared) => rows.get(id)?.held === 1;
  const ahead = accepted.filter((one) => one.goesAhead && !isHeld(one));
  const { failed } = await startInstances(env, ahead, "first");
  const sent = accepted.filter((one) => !ahead.includes(one) || failed.has(one.id));
  await relay(
    env,
    sent.flatMap((one) => untilDue(outgoing(env.MILLRACE_KEY, one, isHeld(one)), one.flow && rows.get(one.id))),
  );
}

interface Prepared extends Acceptance {
  readonly goesAhead: boolean;
}

/**
 * Returns the acceptances whose request equals the request of the stored row. Two requests are equal if their fingerprints are equal.
 * `sameWork` also detects equal requests whose fingerprints differ because an earlier deployment had a different payload version or
 * different defaults.
 */
async function repeatsAmong(
  env: EngineEnv,
  catalog: Catalog,
  prepared: readonly (Prepared | MillraceError)[],
  requests: readonly UntypedRequest[],
  rows: ReadonlyMap<string, KnownRow>,
): Promise<ReadonlySet<Acceptance>> {
  const repeats = new Set<Acceptance>();
  const others: Acceptance[] = [];
  for (const [index, one] of prepared.entries()) {
    if (one instanceof MillraceError) continue;
    const row = rows.get(one.id);
    if (row === undefined) continue;
    // The payload of a pruned instance was removed, so that the present definition cannot parse the payload for a comparison.
    const isRepeat =
      isSamePayload(row.fingerprint, one.fingerprint) ||
      (row.status === "pruned" && isSamePayload(row.fingerprint, fingerprintOf(requests[index]?.payload)));
    if (isRepeat) repeats.add(one);
    else others.push(one);
  }
  for (const one of await sameWork(env, catalog, others)) repeats.add(one);
  return repeats;
}

async function prepare(env: EngineEnv, catalog: Catalog, by: Requester, request: UntypedRequest): Promise<Prepared> {
  const workflow = catalog.performer(request.type);
  const { on: definition } = workflow;
  // A missing binding or `MILLRACE_KEY` is an error before the row is written, so that the caller gets the error.
  assertReady(env);
  if (!isElsewhere(env, workflow.name, catalog.elsewhere)) workflowBinding(env, workflow.name, catalog.elsewhere);
  assertSendable(env, definition.queue);
  const version = request.schemaVersion ?? definition.version;
  const draft = draftOf(definition, version, request.payload, { tags: request.tags });
  const { payload } = draft;
  if (request.exact) assertKnownFields(definition, version, request.payload);
  const key = request.idempotencyKey ?? draft.key ?? definition.key?.(payload) ?? "";
  const end = await asEnvelopeSays(env, catalog, request);
  const { goesAhead, delaySeconds } = paced(catalog, definition.queue, request);
  const id = instanceId(by.tenantId, workflow.name, key);
  await assertToCome(env, { id, delaySeconds }, end, request);
  const envelope = await address(env.PAYLOADS, draft, {
    tenantId: by.tenantId,
    source: by.source,
    correlationId: request.correlationId ?? definition.correlation?.(payload) ?? crypto.randomUUID(),
    causationId: request.causationId ?? `request/${crypto.randomUUID()}`,
    ...nextHop(request),
    ...end,
    idempotencyKey: key,
    owner: id,
  });
  const accepted = acceptance(workflow, envelope, queueFor(definition.queue, envelope), { delaySeconds, payload, id });
  return { ...accepted, goesAhead: goesAhead && accepted.flow === undefined };
}

function delayUntil(runAt: string, delaySeconds: number | undefined, most: number): number {
  const seconds = Math.ceil(Math.max(0, Date.parse(runAt) - Date.now()) / 1000);
  if (delaySeconds === undefined && seconds <= most) return seconds;
  const longest = most === MAX_DELAY_SECONDS ? "12 hours from now, the limit of a lane" : "365 days from now";
  const message = delaySeconds === undefined ? `must be a time with an offset, at most ${longest}` : "excludes a delay: remove one of them";
  throw new MillraceError("invalid_payload", `The time to start at ${message}.`, { issues: [{ path: "run_at", message }] });
}

/** The delay and the priority of a command. Errors: `invalid_payload` for a combination that the command's queue does not support. */
function paced(catalog: Catalog, queue: QueueDefinition, { delaySeconds, runAt, priority = "normal" }: UntypedRequest) {
  const most = laneIn(queue.name) === undefined ? MAX_DUE_SECONDS : MAX_DELAY_SECONDS;
  const delay = runAt === undefined ? checkedDelay(delaySeconds ?? 0, most) : delayUntil(runAt, delaySeconds, most);
  if (priority === "normal") return { goesAhead: false, delaySeconds: delay };
  const declared = catalog.consumers.find((consumer) => consumer.queue.name === queue.name)?.priority;
  const refuse = (message: string): never => {
    throw new MillraceError("invalid_payload", `The priority ${message}.`, { issues: [{ path: "priority", message }] });
  };
  if (declared === undefined) return refuse(`is not supported: the queue ${laneIn(queue.name) ?? queue.name} has no priorities; remove it`);
  if (priority === "low") return { goesAhead: false, delaySeconds: checkedDelay(delay + declared.lowMs / 1000, most) };
  if (delay > 0) return refuse('"high" cannot have a delay: remove one of the two');
  return { goesAhead: true, delaySeconds: 0 };
}

/** Returns the error as the refusal of one item. If the error is a bug of the engine, the function throws the error. */
export function asRefusal(error: unknown): MillraceError {
  if (error instanceof MillraceError && codeOf(error) !== "invariant") return error;
  throw error;
}
