import { type EngineEnv, objectBinding } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import type { Envelope } from "../contract/envelope.ts";
import { codeOf } from "../contract/errors.ts";
import type { Flow } from "../contract/flow.ts";
import { placed } from "../contract/location.ts";
import { laneIn } from "../contract/queue.ts";
import { gathererName } from "../contract/recorder-name.ts";
import { type RowStatement, type Statement, textChunks } from "../contract/sql.ts";
import { within } from "../contract/within.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import { isElsewhere } from "../store/d1/trouble.ts";
import {
  type AcceptedRow,
  areRepeats,
  askForStart,
  insertAccepted,
  refuseRepeats,
  type StoredCommand,
  selectStored,
} from "../store/instances/accept.ts";
import { type Identity, type KnownRow, selectKnown } from "../store/instances/keys.ts";
import type { Outgoing } from "../store/outbox.ts";
import { relay } from "./relay.ts";

/** A command before its row is committed: the row as JSON, and the message that is sent after the commit. */
export interface Arrival extends Identity {
  readonly row: string;
  readonly message: Outgoing;
  readonly flow?: Flow | undefined;
}

/** The result of a write of commands: the rows that the write or an earlier try of the write created, and the rows of all keys. */
export interface Written {
  fresh: AcceptedRow[];
  known: KnownRow[];
}

interface Conditions {
  readonly also?: readonly (Statement | RowStatement)[];
  readonly provided?: Statement | undefined;
  /** True if an earlier try of this write has an unknown outcome. */
  readonly isRepeated?: boolean;
}

/**
 * Commits the rows of commands with the statements in `also`. If every command is a repeat, the function writes nothing. All commands are
 * written by one statement, or by a few statements when their rows are large.
 */
export async function commitCommands(
  db: D1Database,
  commands: readonly Pick<Arrival, "id" | "row" | "flow">[],
  { also = [], provided, isRepeated = false }: Conditions = {},
): Promise<Written> {
  const ids = commands.map(({ id }) => id);
  const known = selectKnown(ids);
  const fresh = textChunks(commands.map(({ row }) => row)).map((rows) => insertAccepted(rows, provided));
  const onlyIfNew = also.length > 0 && provided === undefined ? [refuseRepeats(ids)] : [];
  const inFlow = commands.flatMap(({ id, flow }) => (flow ? [id] : []));
  const asked = inFlow.length > 0 ? [askForStart(inFlow)] : [];
  let tries = 0;
  const counted = {
    prepare: (text: string) => db.prepare(text),
    batch: (statements: D1PreparedStatement[]) => {
      tries++;
      return db.batch(statements);
    },
  } as D1Database;
  const written = await namedBatch(counted, { onlyIfNew, also, fresh, asked, known }).catch((error: unknown) => {
    if (onlyIfNew.length === 0 || !areRepeats(error)) throw error;
    return namedBatch(db, { fresh: [], asked: [], known });
  });
  const result = written as unknown as Written;
  if (tries > 1 || isRepeated) result.fresh.push(...(await createdBefore(db, commands, result)));
  return result;
}

/**
 * The rows that an earlier try of a write created, after which the answer was lost. Such a row has the envelope of one of the commands. The
 * creation time and the trace context distinguish the envelope from the envelopes of equal commands of other callers.
 */
async function createdBefore(db: D1Database, commands: readonly Pick<Arrival, "id" | "row">[], { fresh }: Written): Promise<AcceptedRow[]> {
  const created = new Set(fresh.map(({ id }) => id));
  const open = commands.filter(({ id }) => !created.has(id));
  if (open.length === 0) return [];
  const mark = (id: string, { traceparent, created_at }: Pick<Envelope, "traceparent" | "created_at">) =>
    `${id} ${traceparent} ${created_at}`;
  const own = new Set(open.map(({ id, row }) => mark(id, JSON.parse(row).envelope)));
  const rows = await query<StoredCommand>(db, selectStored(open.map(({ id }) => id)));
  return rows.filter((row) => own.has(mark(row.id, row)));
}

/** Limits of one group, and of the waiting commands. D1 accepts values of at most 2 MB. */
const BOUNDS = { groupCommands: 200, groupCharacters: 500_000, waiting: 2000, waitingCharacters: 8_000_000 };

function charactersOf(commands: readonly Arrival[]): number {
  return commands.reduce((sum, { row }) => sum + row.length, 0);
}

interface Waiting {
  readonly commands: readonly Arrival[];
  readonly characters: number;
  readonly settle: (written: Written | null) => void;
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
   * Resolves after the commands are committed and their messages are sent. Null: the commands were not gathered, because too many commands
   * wait or D1 refused the group; the caller writes the commands itself. Errors: `unavailable` if the database fails.
   */
  accept(commands: readonly Arrival[]): Promise<Written | null> {
    const characters = charactersOf(commands);
    if (this.#waitingCommands >= BOUNDS.waiting || this.#waitingCharacters + characters > BOUNDS.waitingCharacters)
      return Promise.resolve(null);
    return new Promise((settle, fail) => {
      this.#waiting.push({ commands, characters, settle, fail });
      this.#waitingCommands += commands.length;
      this.#waitingCharacters += characters;
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
      const isFull = commands + one.commands.length > BOUNDS.groupCommands || characters + one.characters > BOUNDS.groupCharacters;
      if (size > 0 && isFull) break;
      commands += one.commands.length;
      characters += one.characters;
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
      const written = await commitCommands(
        this.#env.DB,
        group.flatMap(({ commands }) => commands),
      );
      void this.#send(group, written);
    } catch (error) {
      const isOfAll = codeOf(error) === "unavailable" && !isElsewhere(error);
      for (const { settle, fail } of group) isOfAll ? fail(error) : settle(null);
    }
  }

  async #send(group: readonly Waiting[], { fresh, known }: Written): Promise<void> {
    try {
      await crashPoint("A12 gathered commands committed, not enqueued");
      const created = new Map(fresh.map((row) => [row.id, row]));
      const rows = new Map(known.map((row) => [row.id, row]));
      const answers = group.map(({ commands, settle }) => {
        const own: Written = { fresh: [], known: [...new Set(commands.map(({ id }) => id))].flatMap((id) => rows.get(id) ?? []) };
        const messages: Outgoing[] = [];
        for (const { id, fingerprint, message } of commands) {
          const row = created.get(id);
          if (row?.fingerprint !== fingerprint) continue;
          // Of several equal commands, only the first command is new.
          created.delete(id);
          own.fresh.push(row);
          messages.push(...untilDue(row.held === 1 ? unproven(message) : message, rows.get(id)));
        }
        return { own, settle, sends: messages.map((message) => ({ message, receiver: receiverOf(message) })) };
      });
      const groups = Map.groupBy(
        answers.flatMap(({ sends }) => sends),
        ({ receiver }) => receiver,
      );
      const sent = new Map([...groups].map(([receiver, sends]) => [receiver, this.#relay(sends.map(({ message }) => message))]));
      // A caller does not wait for the queues of other callers.
      await Promise.all(
        answers.map(async ({ own, settle, sends }) => {
          await Promise.all(sends.map(({ receiver }) => sent.get(receiver)));
          await crashPoint("A13 gathered commands enqueued, not answered");
          settle(own);
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

/** The message of a held command. Without a proof, the consumer checks the row, because the command's workflow or queue is paused. */
function unproven(message: Outgoing): Outgoing {
  const { acceptance: _, ...envelope } = JSON.parse(message.body);
  return { ...message, body: JSON.stringify(envelope) };
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
  accept(commands: readonly Arrival[]): Promise<Written | null>;
}

/** Time limit of a gathered write. After this time the caller writes its commands itself. */
const ANSWER_WITHIN_MS = 10_000;

/** How long the callers of this isolate write their commands themselves after a gatherer did not answer. */
const AVOIDED_MS = 1000;

const gatherer = { avoidedUntil: 0 };

/**
 * Accepts commands together with the commands of other callers. Null: the caller must write the commands itself. `isUnclear` is then true
 * if the gatherer may have committed the commands without sending their messages. Errors: `unavailable` if the database fails.
 */
export async function acceptGathered(env: EngineEnv, commands: readonly Arrival[]): Promise<Written | { isUnclear: boolean }> {
  // Commands that fill a group alone gain nothing, and would delay the commands of other callers.
  const isLarge = commands.length > BOUNDS.groupCommands || charactersOf(commands) > BOUNDS.groupCharacters;
  if (isLarge || Date.now() < gatherer.avoidedUntil) return { isUnclear: false };
  const objects = objectBinding(env, "RECORDER");
  const id = objects.idFromName(gathererName(env, commands[0]?.id ?? ""));
  try {
    const object = objects.get(id, placed(env)) as unknown as Gathering;
    return (
      (await within(object.accept(commands), ANSWER_WITHIN_MS, () => new Error("The gatherer did not answer."))) ?? { isUnclear: false }
    );
  } catch (error) {
    if (codeOf(error) === "unavailable") throw error;
    gatherer.avoidedUntil = Date.now() + AVOIDED_MS;
    return { isUnclear: true };
  }
}
