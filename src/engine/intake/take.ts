import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import type { Envelope } from "../contract/envelope.ts";
import { signalId } from "../contract/ids.ts";
import { mergeRows, type RowStatement, rowChunks } from "../contract/sql.ts";
import { relay } from "../recorder/relay.ts";
import { type Assigned, assignSignals, reusedAmong, wake } from "../signals/assign.ts";
import { type DeadLetter, insertDeadLetters } from "../store/dead-letters.ts";
import { type AcceptedRow, insertAccepted, takeIn } from "../store/instances/accept.ts";
import { selectKnown } from "../store/instances/keys.ts";
import { watchAgain } from "../store/instances/look.ts";
import { namedBatch } from "../store/named.ts";
import { confirm } from "../store/outbox.ts";
import { atomically, query } from "../store/retry.ts";
import { insertSignals } from "../store/signals.ts";
import { type Acceptance, acceptanceChunks, outgoing } from "./accept.ts";
import type { Intake, Outcomes } from "./consumer.ts";
import { isOfOneMessage, isRefusedRow } from "./hopeless.ts";
import { byIdentity, firstOf, identityOf } from "./identity.ts";
import { deadLetter } from "./letter.ts";
import { keyReused, sameWork } from "./reuse.ts";
import { startInTurn } from "./start.ts";

/** What one delivered message leads to: everything that is written when it is taken in. */
export interface Plan {
  readonly message: Message;
  readonly envelope: Envelope;
  /** Started as soon as they are taken in: the command itself, or the runs that follow an event. */
  readonly instances: readonly Acceptance[];
  /** Sent to queues of their own. */
  readonly commands: readonly Acceptance[];
  readonly rows: readonly RowStatement[];
  /** True for an event that runs may wait for. */
  readonly signal: boolean;
}

/** What one write takes: D1 runs its statements one after another, and their JSON lies in the isolate's 128 MB several times over. */
const MAX_ACCEPTANCES = 1000;
const MAX_CHARACTERS = 2_000_000;

/**
 * Takes messages in, as many in one atomic write as the database bears, then starts, sends and wakes what they lead to. A write that the
 * database refuses because of what a message says is halved until that message stands alone. Says in `outcomes` what became of each;
 * what has no outcome when this throws comes back.
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
    for (const { message } of group) outcomes.set(message, { did: isRefusedRow(error) ? "refused" : "retried", error });
    return;
  }
  await carryOn(intake, group, written, outcomes);
}

/**
 * What the database answered: the rows that are taken in, those of commands that are new, the events that are kept anew, and the waits that
 * have their event now.
 */
interface Written {
  readonly taken: readonly AcceptedRow[];
  readonly sent: readonly AcceptedRow[];
  readonly kept: readonly string[];
  readonly waits: readonly Assigned[];
}

/** Commands beyond what one write takes are committed before the others: alone they change nothing that a repeat would not find. */
async function write(env: EngineEnv, group: readonly Plan[]): Promise<Written> {
  const [last = [], ...before] = slices(
    group.flatMap(({ commands }) => commands),
    (command) => [command],
  ).reverse();
  const sent: AcceptedRow[] = [];
  for (const commands of before.reverse()) {
    const rows = await atomically(
      env.DB,
      acceptanceChunks(commands).map((rows) => insertAccepted(rows)),
    );
    sent.push(...(rows.flat() as unknown as AcceptedRow[]));
  }
  const signals = group.flatMap(({ signal, envelope }) => (signal ? [envelope] : []));
  const answered = await namedBatch(env.DB, {
    taken: acceptanceChunks(group.flatMap(({ instances }) => instances)).map(takeIn),
    confirmed: confirm(group.map(({ envelope }) => envelope)),
    kept: insertSignals(signals),
    waits: signals.length > 0 ? assignSignals(signals) : [],
    sent: acceptanceChunks(last).map((rows) => insertAccepted(rows)),
    rows: mergeRows(group.flatMap(({ rows }) => rows)),
  });
  return {
    taken: answered.taken as unknown as AcceptedRow[],
    sent: [...sent, ...(answered.sent as unknown as AcceptedRow[])],
    kept: answered.kept.map(({ id }) => String(id)),
    waits: answered.waits as unknown as Assigned[],
  };
}

/** The rows decide: only what has its own row there is sent and started. */
async function carryOn(intake: Intake, group: readonly Plan[], written: Written, outcomes: Outcomes): Promise<void> {
  const { env, catalog } = intake;
  const taken = byIdentity(written.taken);
  const sent = byIdentity(written.sent);
  const repeated = group.flatMap((plan) => [
    ...plan.instances.filter((one) => !taken.has(identityOf(one))).map((one) => ({ one, plan })),
    ...plan.commands.filter((one) => !sent.has(identityOf(one))).map((one) => ({ one, plan })),
  ]);
  const captured = new Set<object>([
    ...(await captureReused(intake, repeated)),
    ...(await captureReusedEvents(intake, group, written.kept)),
  ]);

  const commands = firstOf(group.flatMap((plan) => plan.commands)).filter((one) => sent.has(identityOf(one)));
  for (const slice of slices(commands, (command) => [command])) {
    await relay(
      env,
      slice.map((one) => outgoing(env.MILLRACE_KEY, one)),
    );
  }
  await crashPoint("signal kept, not told");
  await wake(env, written.waits, keptAnew(group, written.kept));
  const queued = firstOf(group.flatMap((plan) => plan.instances)).filter((one) => taken.get(identityOf(one))?.status === "queued");
  const unwatched = queued.filter((one) => taken.get(identityOf(one))?.unwatched === 1);
  if (unwatched.length > 0) await atomically(env.DB, [watchAgain(unwatched.map(({ id }) => id))]);
  await startInTurn(env, queued);

  for (const { message, envelope, instances } of group) {
    const [command] = envelope.kind === "command" ? instances : [];
    if (command === undefined) outcomes.set(message, { did: captured.has(envelope) ? "captured" : "routed" });
    else if (captured.has(command)) outcomes.set(message, { did: "captured" });
    else outcomes.set(message, { did: taken.get(identityOf(command))?.deliveries === 1 ? "started" : "duplicate" });
  }
  await catalog.confirm(
    env,
    group.map(({ envelope }) => envelope),
  );
}

/**
 * Captures those whose key another payload has taken. The others that the database did not answer are repeats: of known work, of pruned
 * keys. Asked only when there are any, so that the usual batch does not pay for it.
 */
async function captureReused(
  { env, catalog, consumer: { queue } }: Intake,
  repeated: readonly { one: Acceptance; plan: Plan }[],
): Promise<ReadonlySet<Acceptance>> {
  if (repeated.length === 0) return new Set();
  const known = await query<{ id: string; fingerprint: string }>(env.DB, selectKnown(repeated.map(({ one }) => one.id)));
  const own = byIdentity(known);
  const others = repeated.filter(({ one }) => !own.has(identityOf(one)));
  const same = await sameWork(
    env,
    catalog,
    others.map(({ one }) => one),
  );
  const reused = others.filter(({ one }) => !same.has(one));
  const letters = reused.map(({ one, plan: { message, envelope } }) => {
    // A command that an event leads to is captured as it would have been sent: the event itself is none the worse.
    const body = envelope.kind === "command" ? message.body : one.envelope;
    const given = { queue: one.queue ?? queue.name, body, attempts: message.attempts, firstAt: message.timestamp.getTime() };
    return deadLetter({ ...given, error: keyReused(one.envelope) });
  });
  await storeLetters(env, letters);
  return new Set(reused.map(({ one }) => one));
}

/** The events of a group that the database kept: of those with one key the first. */
function keptAnew(group: readonly Plan[], kept: readonly string[]): Envelope[] {
  const unseen = new Set(kept);
  return group.flatMap(({ signal, envelope }) => (signal && unseen.delete(signalId(envelope)) ? [envelope] : []));
}

/** The same for events that runs may wait for: the wait would never hear of the second payload, so somebody must. */
async function captureReusedEvents(
  { env, consumer: { queue } }: Intake,
  group: readonly Plan[],
  kept: readonly string[],
): Promise<ReadonlySet<Envelope>> {
  const anew = new Set(keptAnew(group, kept));
  const repeated = group.filter(({ signal, envelope }) => signal && !anew.has(envelope));
  const reused = await reusedAmong(
    env,
    repeated.map(({ envelope }) => envelope),
  );
  const letters = repeated
    .filter(({ envelope }) => reused.has(envelope))
    .map(({ message: { body, attempts, timestamp }, envelope }) =>
      deadLetter({ queue: queue.name, body, attempts, firstAt: timestamp.getTime(), error: keyReused(envelope) }),
    );
  await storeLetters(env, letters);
  return reused;
}

async function storeLetters(env: EngineEnv, letters: readonly DeadLetter[]): Promise<void> {
  await atomically(
    env.DB,
    rowChunks(letters).map((chunk) => insertDeadLetters(chunk)),
  );
}

/** Cuts a list so that what each part has to accept fits one write. What one item alone leads to is not cut. */
function slices<T>(items: readonly T[], accepts: (item: T) => readonly Acceptance[]): T[][] {
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
