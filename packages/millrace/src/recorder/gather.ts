import { type EngineEnv, objectBinding } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import type { Envelope } from "../contract/envelope.ts";
import { codeOf } from "../contract/errors.ts";
import { placed } from "../contract/location.ts";
import { laneIn } from "../contract/queue.ts";
import { gathererName } from "../contract/recorder-name.ts";
import { type RowStatement, type Statement, textChunks } from "../contract/sql.ts";
import { within } from "../contract/within.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import { isElsewhere } from "../store/d1/trouble.ts";
import { areRepeats, askForStart, insertAccepted, refuseRepeats, selectStored } from "../store/instances/accept.ts";
import { type KnownRow, selectKnown } from "../store/instances/keys.ts";
import type { Outgoing } from "../store/outbox.ts";
import { type Arrival, outgoing } from "./proof.ts";
import { relay } from "./relay.ts";

interface Conditions {
  readonly also?: readonly (Statement | RowStatement)[];
  readonly provided?: Statement | undefined;
  /** True if an earlier try of this write has an unknown outcome. */
  readonly isRepeated?: boolean;
}

/**
 * Commits the rows of commands with the statements in `also`. If every command is a repeat, the function writes nothing. All commands are
 * written by one statement, or by a few statements when their rows are large. `texts`: the commands as JSON texts, each with one command or
 * several. Returns the rows of all keys by id.
 */
export async function commitCommands(
  db: D1Database,
  commands: readonly Arrival[],
  texts: Iterable<string>,
  { also = [], provided, isRepeated = false }: Conditions = {},
): Promise<Map<string, KnownRow>> {
  const ids = commands.map(({ id }) => id);
  const known = selectKnown(ids);
  const fresh = textChunks(texts).map((rows) => insertAccepted(rows, provided));
  const onlyIfNew = also.length > 0 && provided === undefined ? [refuseRepeats(ids)] : [];
  const inFlow = commands.flatMap(({ id, flow }) => (flow ? [id] : []));
  const asked = inFlow.length > 0 ? [askForStart(inFlow), selectKnown(inFlow)] : [];
  let tries = 0;
  const counted = {
    prepare: (text: string) => db.prepare(text),
    batch: (statements: D1PreparedStatement[]) => {
      tries++;
      return db.batch(statements);
    },
  } as D1Database;
  const written = await namedBatch(counted, { known, onlyIfNew, also, fresh, asked }).catch((error: unknown) => {
    if (onlyIfNew.length === 0 || !areRepeats(error)) throw error;
    return namedBatch(db, { known, fresh: [], asked: [] });
  });
  const rows = [...written.known, ...written.fresh] as unknown as KnownRow[];
  const found = new Map(rows.map((row) => [row.id, row]));
  // A trigger changes the row of a command with flow control after the insert has returned the row.
  for (const row of written.asked as unknown as KnownRow[]) found.set(row.id, { ...found.get(row.id), ...row });
  if (tries > 1 || isRepeated) await markCreatedBefore(db, commands, found);
  return found;
}

/**
 * Marks the rows that an earlier try of a write created, after which the answer was lost. Such a row has the envelope of one of the
 * commands. The creation time and the trace context distinguish the envelope from the envelopes of equal commands of other callers. The
 * rows are marked as held, because a repeated write does not know whether a command was held when it was accepted.
 */
async function markCreatedBefore(db: D1Database, commands: readonly Arrival[], found: ReadonlyMap<string, KnownRow>): Promise<void> {
  const open = commands.filter(({ id }) => found.get(id)?.held === undefined);
  if (open.length === 0) return;
  const mark = (id: string, { traceparent, created_at }: Mark) => `${id} ${traceparent} ${created_at}`;
  const own = new Set(open.map(({ id, envelope }) => mark(id, envelope)));
  const stored = await query<Mark & { id: string }>(db, selectStored(open.map(({ id }) => id)));
  for (const one of stored) {
    const row = own.has(mark(one.id, one)) ? found.get(one.id) : undefined;
    if (row) row.held = 1;
  }
}

type Mark = Pick<Envelope, "traceparent" | "created_at">;

/** Limits of one group, and of the waiting commands. D1 accepts values of at most 2 MB. */
const BOUNDS = { groupCommands: 200, groupCharacters: 500_000, waiting: 2000, waitingCharacters: 8_000_000 };

interface Waiting {
  readonly commands: readonly Arrival[];
  readonly rows: string;
  readonly settle: (rows: string | null) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Commits the commands of concurrent callers in one D1 batch, and sends the messages of these commands together. While a batch is in
 * progress, commands are collected for the next batch. The commands are only in memory before their commit. If a gatherer ends, its callers
 * repeat the writes.
 */
export class Gatherer {
  readonly #env: EngineEnv;
  #waiting: Waiting[] = [];
  #waitingCommands = 0;
  #waitingCharacters = 0;
  #busy = false;

  constructor(env: EngineEnv) {
    this.#env = env;
  }

  /**
   * Accepts commands, which are given as their rows in JSON, separated by commas. Resolves after the commands are committed and their
   * messages are sent, with the rows of all keys as JSON. Null: the commands were not gathered, because too many commands wait or D1
   * refused the group; the caller writes the commands itself. Errors: `unavailable` if the database fails.
   */
  accept(rows: string): Promise<string | null> {
    if (this.#waitingCommands >= BOUNDS.waiting || this.#waitingCharacters + rows.length > BOUNDS.waitingCharacters)
      return Promise.resolve(null);
    const commands = JSON.parse(`[${rows}]`) as Arrival[];
    return new Promise((settle, fail) => {
      this.#waiting.push({ commands, rows, settle, fail });
      this.#waitingCommands += commands.length;
      this.#waitingCharacters += rows.length;
      if (!this.#busy) void this.#drain();
    });
  }

  async #drain(): Promise<void> {
    this.#busy = true;
    try {
      while (this.#waiting.length > 0) {
        // Commands that have already reached the object join the group. Without this wait a group has half as many commands.
        await scheduler.wait(0);
        await this.#commit(this.#takeGroup());
      }
    } finally {
      this.#busy = false;
    }
  }

  #takeGroup(): Waiting[] {
    let commands = 0;
    let characters = 0;
    let size = 0;
    for (const one of this.#waiting) {
      const isFull = commands + one.commands.length > BOUNDS.groupCommands || characters + one.rows.length > BOUNDS.groupCharacters;
      if (size > 0 && isFull) break;
      commands += one.commands.length;
      characters += one.rows.length;
      size++;
    }
    this.#waitingCommands -= commands;
    this.#waitingCharacters -= characters;
    return this.#waiting.splice(0, size);
  }

  /** Commits a group. The messages of the group are sent during the commit of the next group. */
  async #commit(group: readonly Waiting[]): Promise<void> {
    try {
      await crashPoint("A11 commands gathered, not committed");
      const commands = group.flatMap((one) => one.commands);
      const texts = group.map(({ rows }) => rows);
      void this.#send(group, await commitCommands(this.#env.DB, commands, texts));
    } catch (error) {
      const isOfAll = codeOf(error) === "unavailable" && !isElsewhere(error);
      for (const { settle, fail } of group) isOfAll ? fail(error) : settle(null);
    }
  }

  async #send(group: readonly Waiting[], rows: ReadonlyMap<string, KnownRow>): Promise<void> {
    try {
      await crashPoint("A12 gathered commands committed, not enqueued");
      const created = new Set<string>();
      const answers = group.map(({ commands, settle }) => {
        const own = new Map<string, KnownRow>();
        const messages: Outgoing[] = [];
        for (const command of commands) {
          const row = rows.get(command.id);
          if (row === undefined || own.get(row.id)?.held !== undefined) continue;
          // Of several equal commands, only the first command is new.
          const isNew = row.held !== undefined && row.fingerprint === command.fingerprint && !created.has(row.id);
          own.set(row.id, isNew ? row : { ...row, held: undefined });
          if (!isNew) continue;
          created.add(row.id);
          messages.push(...untilDue(outgoing(this.#env.MILLRACE_KEY, command, row.held === 1), row));
        }
        const answer = JSON.stringify([...own.values()]);
        return { answer, settle, sends: messages.map((message) => ({ message, receiver: receiverOf(message) })) };
      });
      const groups = Map.groupBy(
        answers.flatMap(({ sends }) => sends),
        ({ receiver }) => receiver,
      );
      const sent = new Map([...groups].map(([receiver, sends]) => [receiver, this.#relay(sends.map(({ message }) => message))]));
      // A caller does not wait for the queues of other callers.
      await Promise.all(
        answers.map(async ({ answer, settle, sends }) => {
          await Promise.all(sends.map(({ receiver }) => sent.get(receiver)));
          await crashPoint("A13 gathered commands enqueued, not answered");
          settle(answer);
        }),
      );
    } catch (error) {
      for (const { fail } of group) fail(error);
    }
  }

  /** Sends messages of committed commands, within the time limit of a call. The keeper sends the messages that were not sent. */
  async #relay(messages: readonly Outgoing[]): Promise<void> {
    await within(relay(this.#env, messages)).catch(() => undefined);
  }
}

/** The queue of a message. Messages to lanes are separated by tenant, because a lane that hangs must not delay other tenants. */
function receiverOf({ queue, body }: Outgoing): string {
  return laneIn(queue) === undefined ? queue : `${queue} of ${JSON.parse(body).tenant_id}`;
}

/**
 * The message of a new command, delayed until the command is due, because a trigger may have set the due time at the acceptance. A command
 * that waits for a slot needs no message, because the end of another instance starts the command.
 */
export function untilDue(message: Outgoing, row: Pick<KnownRow, "due_at" | "waits"> | undefined): Outgoing[] {
  if (row?.waits === 1) return [];
  const seconds = row?.due_at ? Math.ceil((row.due_at - Date.now()) / 1000) : 0;
  return [seconds > message.delaySeconds ? { ...message, delaySeconds: seconds } : message];
}

interface Gathering {
  accept(rows: string): Promise<string | null>;
}

/** Time limit of a gathered write. After this time the caller writes its commands itself. */
const ANSWER_WITHIN_MS = 10_000;

/** How long the callers of this isolate write their commands themselves after a gatherer did not answer. */
const AVOIDED_MS = 1000;

const gatherer = { avoidedUntil: 0 };

/**
 * Accepts commands together with the commands of other callers. Returns the rows of all keys by id. Otherwise the caller must write the
 * commands itself. `isUnclear` is then true if the gatherer may have committed the commands without sending their messages. Errors:
 * `unavailable` if the database fails.
 */
export async function acceptGathered(
  env: EngineEnv,
  commands: readonly { readonly id: string; readonly row: string }[],
): Promise<Map<string, KnownRow> | { isUnclear: boolean }> {
  // A call with texts takes less processor time than a call with objects.
  const rows = commands.map(({ row }) => row).join(",");
  // Commands that fill a group alone gain nothing, and would delay the commands of other callers.
  const isLarge = commands.length > BOUNDS.groupCommands || rows.length > BOUNDS.groupCharacters;
  if (isLarge || Date.now() < gatherer.avoidedUntil) return { isUnclear: false };
  const objects = objectBinding(env, "RECORDER");
  const id = objects.idFromName(gathererName(env, commands[0]?.id ?? ""));
  try {
    const object = objects.get(id, placed(env)) as unknown as Gathering;
    const answer = await within(object.accept(rows), ANSWER_WITHIN_MS, () => new Error("The gatherer did not answer."));
    if (answer === null) return { isUnclear: false };
    return new Map((JSON.parse(answer) as KnownRow[]).map((row) => [row.id, row]));
  } catch (error) {
    if (codeOf(error) === "unavailable") throw error;
    gatherer.avoidedUntil = Date.now() + AVOIDED_MS;
    return { isUnclear: true };
  }
}
