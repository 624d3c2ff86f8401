import type { EngineEnv } from "../../contract/bindings.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { signalId } from "../../contract/ids.ts";
import { mergeRows, type Statement } from "../../contract/sql.ts";
import { type Assigned, assignSignals } from "../../signals/assign.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { atomically } from "../../store/d1/retry.ts";
import { type AcceptedRow, askForStart, insertAccepted, selectInTurn, takeIn } from "../../store/instances/accept.ts";
import type { KnownRow } from "../../store/instances/keys.ts";
import { UNSEEN } from "../../store/instances/status.ts";
import { confirm } from "../../store/outbox.ts";
import { advanceStreams, hasMoved, type StreamMove } from "../../store/sequences.ts";
import { insertSignals } from "../../store/signals.ts";
import { type Acceptance, acceptanceChunks } from "../accept/accept.ts";
import type { Intake, Outcome, Outcomes } from "../consumer.ts";
import { byIdentity } from "../identity.ts";
import { isOfOneMessage, isRefusedRow } from "../letters/hopeless.ts";
import { carryOn, slices } from "./carry-on.ts";
import type { Plan, Written } from "./plan.ts";

/**
 * Accepts messages, as many per atomic write as the database allows. Then starts instances, sends messages and notifies waits. When the
 * database refuses a write because of one message, the group is halved until that message is isolated. The function sets each message's
 * outcome. If the function throws, messages without an outcome are redelivered.
 */
export async function takeAllIn(intake: Intake, plans: readonly Plan[], outcomes: Outcomes): Promise<void> {
  for (const group of slices(plans, (plan) => [...plan.instances, ...plan.commands])) await takeGroupIn(intake, group, outcomes);
}

async function takeGroupIn(intake: Intake, group: readonly Plan[], outcomes: Outcomes): Promise<void> {
  let written: Written;
  try {
    written = await write(intake.env, group);
  } catch (error) {
    if (group.length > 1 && isOfOneMessage(error)) {
      const half = Math.ceil(group.length / 2);
      await takeGroupIn(intake, group.slice(0, half), outcomes);
      return takeGroupIn(intake, group.slice(half), outcomes);
    }
    for (const { message } of group) outcomes.set(message, becauseOf(error));
    return;
  }
  await carryOn(intake, group, written, outcomes);
}

function becauseOf(error: unknown): Outcome {
  if (hasMoved(error)) return { did: "retried", error, unharmed: true };
  return { did: isRefusedRow(error) ? "refused" : "retried", error };
}

/**
 * The moves of streams in a group, one move per stream. A move goes from the position before the stream's first message in the group to the
 * position of its last message.
 */
function movesOf(group: readonly Plan[]): StreamMove[] {
  const moves = group.flatMap(({ move }) => move ?? []);
  return [...Map.groupBy(moves, ({ id }) => id)].map(([id, all]) => ({
    id,
    from: Math.min(...all.map(({ from }) => from)),
    to: Math.max(...all.map(({ to }) => to)),
    missing: all.flatMap(({ missing }) => missing),
  }));
}

async function write(env: EngineEnv, group: readonly Plan[]): Promise<Written> {
  const [last = [], ...before] = slices(
    group.flatMap(({ commands }) => commands),
    (command) => [command],
  ).reverse();
  const sent = await insertBefore(env, before.reverse());
  const moves = movesOf(group);
  const signals = group.flatMap(({ signal, envelope }) => (signal ? [envelope] : []));
  const instances = group.flatMap((plan) => plan.instances);
  const inFlow = instances.flatMap(({ id, flow }) => (flow ? [id] : []));
  const answered = await namedBatch(env.DB, {
    taken: acceptanceChunks(instances).map(takeIn),
    inTurn: inFlow.length > 0 ? [askForStart(inFlow), selectInTurn(inFlow)] : [],
    // An event whose route code runs after the commit is confirmed after that code.
    confirmed: confirm(group.filter(({ after = [] }) => after.length === 0).map(({ envelope }) => envelope)),
    kept: insertSignals(signals),
    waits: signals.length > 0 ? assignSignals(signals) : [],
    sent: insertCommands(last),
    rows: mergeRows(group.flatMap(({ rows }) => rows)),
    moved: moves.length > 0 ? advanceStreams(moves) : [],
  });
  // A trigger gives the slots and the due times after the insert has returned its rows.
  const waiting = new Set(inFlow).difference(new Set(answered.inTurn.map(({ id }) => id)));
  const taken = answered.taken as unknown as AcceptedRow[];
  for (const row of taken) if (waiting.has(row.id) && UNSEEN.has(row.status)) row.held = 1;
  return {
    taken: byIdentity(taken),
    sent: byIdentity([...sent, ...(answered.sent as unknown as KnownRow[])]),
    kept: firstOfEach(signals, new Set(answered.kept.map(({ id }) => String(id)))),
    waits: answered.waits as unknown as Assigned[],
  };
}

function insertCommands(commands: readonly Acceptance[]): Statement[] {
  const inFlow = commands.flatMap(({ id, flow }) => (flow ? [id] : []));
  const inserts = acceptanceChunks(commands).map((rows) => insertAccepted(rows));
  return inFlow.length > 0 ? [...inserts, askForStart(inFlow)] : inserts;
}

/**
 * Writes commands that exceed the limit of one write in separate, earlier writes. A crash between the writes does no harm, because the
 * redelivered message finds the rows of these commands.
 */
async function insertBefore(env: EngineEnv, slices: readonly (readonly Acceptance[])[]): Promise<KnownRow[]> {
  const sent: KnownRow[] = [];
  for (const commands of slices) {
    const rows = await atomically(env.DB, insertCommands(commands));
    sent.push(...(rows.flat() as unknown as KnownRow[]));
  }
  return sent;
}

/** Returns, for each key, the first event with that key, if the database stored an event with that key. */
function firstOfEach(signals: readonly Envelope[], kept: Set<string>): Envelope[] {
  return signals.filter((envelope) => kept.delete(signalId(envelope)));
}
