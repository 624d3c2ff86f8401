import type { EngineEnv } from "../../contract/bindings.ts";
import { crashPoint } from "../../contract/crash-points.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { rowChunks } from "../../contract/sql.ts";
import { duringSpan } from "../../contract/trace.ts";
import { spanOfDelivery } from "../../observe/deliveries.ts";
import { outgoing } from "../../recorder/proof.ts";
import { relay } from "../../recorder/relay.ts";
import { startInTurn } from "../../recorder/start.ts";
import { reusedAmong, wake } from "../../signals/assign.ts";
import { atomically, query } from "../../store/d1/retry.ts";
import { type DeadLetter, insertDeadLetters } from "../../store/dead-letters.ts";
import { selectKnown } from "../../store/instances/keys.ts";
import { watchAgain } from "../../store/instances/look.ts";
import { UNSEEN } from "../../store/instances/status.ts";
import { confirm } from "../../store/outbox.ts";
import { confirmToSenders } from "../../topology/hooks.ts";
import type { Acceptance } from "../accept/accept.ts";
import { keyReused, sameWork } from "../accept/reuse.ts";
import type { Intake, Outcome, Outcomes } from "../consumer.ts";
import { byIdentity, firstOf } from "../identity.ts";
import { noteCaptured } from "../letters/capture.ts";
import { deadLetter } from "../letters/letter.ts";
import { failedBy } from "./follow.ts";
import type { Plan, Written } from "./plan.ts";

/**
 * Sends commands, notifies waits and starts instances after the commit. The function sends and starts only rows that the commit wrote for
 * the given messages.
 */
export async function carryOn(intake: Intake, group: readonly Plan[], written: Written, outcomes: Outcomes): Promise<void> {
  const { env, catalog } = intake;
  const captured = await captureReused(intake, group, written);
  await send(env, group, written);
  await crashPoint("signal stored, instance not notified");
  await wake(env, written.waits, written.kept, catalog.elsewhere);
  const putOff = await start(env, group, written);
  const failed = await callAfter(group);
  for (const plan of group) outcomes.set(plan.message, failed.get(plan) ?? whatBecameOf(plan, written, { captured, putOff }));
  const over = group.filter((plan) => !failed.has(plan));
  await atomically(env.DB, confirm(over.filter(({ after = [] }) => after.length > 0).map(({ envelope }) => envelope)));
  await confirmToSenders(
    catalog.hooks,
    env,
    over.map(({ envelope }) => envelope),
  );
}

/** Runs the code of routes that must run after the commit. Returns the outcome of each event for which such code threw an error. */
async function callAfter(group: readonly Plan[]): Promise<ReadonlyMap<Plan, Outcome>> {
  const failed = new Map<Plan, Outcome>();
  const calls = group.flatMap((plan) => (plan.after ?? []).map((run) => ({ plan, run })));
  await Promise.all(
    calls.map(async ({ plan, run }) => {
      try {
        await duringSpan(spanOfDelivery(plan.message), run);
      } catch (thrown) {
        failed.set(plan, failedBy(thrown));
      }
    }),
  );
  return failed;
}

async function send(env: EngineEnv, group: readonly Plan[], { sent }: Written): Promise<void> {
  const commands = firstOf(group.flatMap((plan) => plan.commands)).filter((one) => sent.has(one));
  for (const slice of slices(commands, (command) => [command])) {
    await relay(
      env,
      slice.map((one) => outgoing(env.MILLRACE_KEY, one, sent.get(one)?.held === 1)),
    );
  }
}

/**
 * Creates instances on the platform. Returns the ids of the instances that could not be created yet. The keeper starts these instances
 * later.
 */
async function start(env: EngineEnv, group: readonly Plan[], { taken }: Written): Promise<{ has(id: string): boolean }> {
  const queued: Acceptance[] = [];
  const unwatched: string[] = [];
  for (const one of firstOf(group.flatMap((plan) => plan.instances))) {
    const row = taken.get(one);
    if (row === undefined || !UNSEEN.has(row.status)) continue;
    if (row.status === "queued" && row.held === 0) queued.push(one);
    if (row.unwatched === 1) unwatched.push(one.id);
  }
  if (unwatched.length > 0) await atomically(env.DB, [watchAgain(unwatched)]);
  return (await startInTurn(env, queued)).failed;
}

interface Known {
  readonly captured: ReadonlySet<object>;
  readonly putOff: { has(id: string): boolean };
}

function whatBecameOf({ envelope, instances }: Plan, { taken }: Written, { captured, putOff }: Known): Outcome {
  const [command] = envelope.kind === "command" ? instances : [];
  if (command === undefined) return { did: captured.has(envelope) ? "captured" : "routed" };
  if (captured.has(command)) return { did: "captured" };
  const row = taken.get(command);
  // The command's workflow or queue is paused, or the command waits for a slot or its due time.
  if (row?.status === "accepted" || (command.flow && row?.held === 1)) return { did: "put off" };
  if (row?.deliveries !== 1) return { did: "duplicate" };
  return { did: putOff.has(command.id) ? "put off" : "started" };
}

/**
 * Captures instances, commands and awaited events that the database did not accept, because their key belongs to a message with a different
 * payload. Returns the captured messages.
 */
async function captureReused(intake: Intake, group: readonly Plan[], written: Written): Promise<ReadonlySet<object>> {
  const { taken, sent } = written;
  const repeated = group.flatMap((plan) => [
    ...plan.instances.filter((one) => !taken.has(one)).map((one) => ({ one, plan })),
    ...plan.commands.filter((one) => !sent.has(one)).map((one) => ({ one, plan })),
  ]);
  return new Set<object>([...(await captureCommands(intake, repeated)), ...(await captureEvents(intake, group, written.kept))]);
}

/**
 * The messages without an inserted row are repeats of known commands, repeats of pruned keys, or key reuses. A query distinguishes these
 * cases. The query runs only if such messages exist, so that the usual batch needs no extra query.
 */
async function captureCommands(intake: Intake, repeated: readonly { one: Acceptance; plan: Plan }[]): Promise<ReadonlySet<Acceptance>> {
  if (repeated.length === 0) return new Set();
  const { env, catalog, consumer, takenAt } = intake;
  const known = await query<{ id: string; fingerprint: string }>(env.DB, selectKnown(repeated.map(({ one }) => one.id)));
  const own = byIdentity(known);
  const others = repeated.filter(({ one }) => !own.has(one));
  const same = await sameWork(
    env,
    catalog,
    others.map(({ one }) => one),
  );
  const reused = others.filter(({ one }) => !same.has(one));
  const letters = reused.map(({ one, plan: { message, envelope } }): Captured => {
    // A command that follows from an event is captured in the form in which it would have been sent. An event that starts an
    // instance keeps its `replay` field, because a replay is a different message.
    const body = one.envelope.kind === envelope.kind ? message.body : one.envelope;
    const given = { queue: one.queue ?? consumer.queue.name, body, attempts: message.attempts, firstAt: message.timestamp.getTime() };
    const letter = deadLetter({ ...given, error: keyReused(one.envelope) });
    return body === message.body ? { letter, delivery: message, takenAt } : { letter, delivery: { id: message.id, body } };
  });
  await capture(intake, letters);
  return new Set(reused.map(({ one }) => one));
}

/**
 * Captures events whose key is stored with a different payload, because no wait would receive such an event. An operator decides about each
 * captured event.
 */
async function captureEvents(intake: Intake, group: readonly Plan[], kept: readonly Envelope[]): Promise<ReadonlySet<Envelope>> {
  const { env, consumer, takenAt } = intake;
  const anew = new Set(kept);
  const repeated = group.filter(({ signal, envelope }) => signal && !anew.has(envelope));
  const reused = await reusedAmong(
    env,
    repeated.map(({ envelope }) => envelope),
  );
  const letters = repeated
    .filter(({ envelope }) => reused.has(envelope))
    .map(({ message, envelope }): Captured => {
      const { body, attempts, timestamp } = message;
      const letter = deadLetter({ queue: consumer.queue.name, body, attempts, firstAt: timestamp.getTime(), error: keyReused(envelope) });
      return { letter, delivery: message, takenAt };
    });
  await capture(intake, letters);
  return reused;
}

/** A dead letter and the time of the delivery that failed. */
interface Captured {
  readonly letter: DeadLetter;
  readonly delivery: Pick<Message, "id" | "body">;
  /** The time of the failed delivery; undefined for a command that was never delivered. */
  readonly takenAt?: number | undefined;
}

async function capture(intake: Intake, captured: readonly Captured[]): Promise<void> {
  await atomically(
    intake.env.DB,
    rowChunks(captured.map(({ letter }) => letter)).map((chunk) => insertDeadLetters(chunk)),
  );
  for (const { letter, delivery, takenAt } of captured) noteCaptured({ ...intake, takenAt }, letter, delivery, letter.attempts);
}

/**
 * Maximum number of acceptances in one write. The limit exists because D1 runs statements in sequence, and because the isolate's 128 MB
 * must hold the acceptances' JSON several times.
 */
const MAX_ACCEPTANCES = 1000;
const MAX_CHARACTERS = 2_000_000;

/**
 * Splits a list into parts, so that the acceptances of each part fit into one write. A single item is never split, even if its acceptances
 * exceed the limit.
 */
export function slices<T>(items: readonly T[], accepts: (item: T) => readonly Acceptance[]): T[][] {
  const parts: T[][] = [];
  let characters = Number.POSITIVE_INFINITY;
  let acceptances = 0;
  for (const item of items) {
    const its = accepts(item);
    const size = its.reduce((sum, { row }) => sum + row.length, 0);
    if (characters + size > MAX_CHARACTERS || acceptances + its.length > MAX_ACCEPTANCES) {
      parts.push([]);
      [characters, acceptances] = [0, 0];
    }
    parts.at(-1)?.push(item);
    characters += size;
    acceptances += its.length;
  }
  return parts;
}
