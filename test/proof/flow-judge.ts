// Checks the flow control of runs that share a key: from triggers of the tests, the rows, and the times of the upstream.
import { LIMITS, type Limited, type Limits } from "./flow.ts";
import type { Stage, Subject } from "./stage.ts";
import { callsOf } from "./upstream.ts";

/** A slot that a run got from the engine, or took when an operator started it. */
export interface Slot {
  at: number;
  /** The place in the line before that: the lowest is the first. */
  turn: number;
  /** The status of the run. A run without a start gets its slot from the engine. */
  status: string;
  /** The number of runs in progress with a slot of the key, including this run. */
  held: number;
}

/** One run of a key. All times are in milliseconds since 1970. */
export interface Member {
  id: string;
  acceptedAt: number;
  dueAt: number | null;
  /** The id of the later command that has replaced it. */
  replacedBy: string | undefined;
  /** The first request of an operator that starts, stops or restarts it. */
  orderedAt: number;
  slots: Slot[];
  /** The changes of its row's status. */
  statuses: { at: number; to: string }[];
  /** The requests of effects, by the upstream's clock. */
  calls: number[];
  /** The rows of its commits. */
  commits: number;
}

/** The problems of a key, and the number of its runs that waited: for a slot or for their time. */
export interface Judged {
  problems: string[];
  waited: number;
  replaced: number;
}

/** A run may start this much before its time, because clocks differ. */
const EARLY_MS = 1000;
/** The statements of one write have different times. */
const ONE_WRITE_MS = 500;
/** A run that gets its slot at once is not counted as a run that waited. */
const AT_ONCE_MS = 100;

export async function judgeFlow(stage: Stage, limited: Limited, runs: readonly Subject[]): Promise<Judged> {
  const members = await Promise.all(runs.map((run) => memberOf(stage, run)));
  const ordered = members.toSorted((a, b) => a.place - b.place);
  const problems = wrongInFlow(LIMITS[limited], ordered);
  return {
    problems: problems.length === 0 ? [] : [...problems, ...ordered.map((one) => `\n    run ${JSON.stringify(one)}`)],
    waited: ordered.filter(({ slots: [first], acceptedAt }) => first && first.at - acceptedAt > AT_ONCE_MS).length,
    replaced: ordered.filter(({ replacedBy }) => replacedBy !== undefined).length,
  };
}

/** The problems of the runs of a key, which are given in the order of their acceptance. */
export function wrongInFlow(limits: Limits, members: readonly Member[]): string[] {
  return [
    ...members.flatMap((one) => wrongSlots(limits, one, members)),
    ...wrongAtOnce(limits, members),
    ...wrongIdle(limits, members),
    ...wrongWithTimes(members),
    ...(limits.debounce
      ? wrongReplaced(members)
      : members.flatMap(({ id, replacedBy }) => (replacedBy ? [`lost: ${id} was replaced`] : []))),
    ...(limits.throttle ? wrongSpaces(limits.throttle, members) : []),
  ];
}

/** Each slot is within the limit and in the order of the line, unless an operator has started the run; and no effect precedes it. */
function wrongSlots({ concurrency }: Limits, { id, slots, calls, orderedAt, replacedBy }: Member, all: readonly Member[]): string[] {
  const problems: string[] = [];
  for (const { at, turn, status, held } of slots) {
    if (orderedAt <= at) continue;
    if (status !== "accepted" && status !== "queued") problems.push(`invented: ${id} ran (${status}) without a slot`);
    else if (held > concurrency) problems.push(`duplicate: ${id} got a slot, and ${held} runs had one of ${concurrency}`);
    const passedOver = all.filter(({ slots: [first], orderedAt: stopped }) => first && stopped > at && first.at > at && first.turn < turn);
    if (passedOver.length > 0) problems.push(`invented: ${id} got its slot before ${passedOver.map((one) => one.id)}`);
  }
  const [first] = calls;
  const got = slots[0]?.at ?? Number.POSITIVE_INFINITY;
  if (first !== undefined && first < got && replacedBy === undefined) problems.push(`invented: ${id} had an effect before it got a slot`);
  return problems;
}

/** The upstream saw more runs at once than the limit. Runs that an operator has started do not count. */
function wrongAtOnce({ concurrency }: Limits, members: readonly Member[]): string[] {
  const seen = members.flatMap(({ calls, statuses, orderedAt }) => {
    const endedAt = statuses.find(({ to }) => OVER.has(to))?.at ?? Number.POSITIVE_INFINITY;
    const own = calls.filter((at) => at <= endedAt);
    return own.length > 0 && orderedAt > endedAt ? [{ from: Math.min(...own), to: Math.max(...own) }] : [];
  });
  const most = Math.max(0, ...seen.map(({ from: at }) => seen.filter(({ from, to }) => from <= at && at <= to).length));
  return most > concurrency ? [`duplicate: the upstream saw ${most} runs of a key at once, and the limit is ${concurrency}`] : [];
}

/** A slot is given in the write that frees it: no run waits while the key has a free slot. */
function wrongIdle({ concurrency }: Limits, members: readonly Member[]): string[] {
  const isOver = ({ statuses }: Member, now: number) => OVER.has(statuses.findLast(({ at }) => at <= now)?.to ?? "");
  const hasSlot = ({ slots }: Member, now: number) => slots.some(({ at }) => at <= now);
  const waits = (one: Member, now: number) =>
    one.acceptedAt <= now - ONE_WRITE_MS && one.dueAt === null && one.orderedAt > now && !hasSlot(one, now) && !isOver(one, now);
  const times = members.flatMap(({ slots, statuses }) => [...slots, ...statuses].map(({ at }) => at)).toSorted((a, b) => a - b);
  return times.flatMap((now, index) => {
    const idleMs = (times[index + 1] ?? now) - now;
    const held = members.filter((one) => hasSlot(one, now) && !isOver(one, now)).length;
    const waiting = idleMs > 0 && held < concurrency ? members.filter((one) => waits(one, now)) : [];
    return waiting.length > 0 ? [`lost: a slot was free for ${idleMs} ms, and ${waiting.map(({ id }) => id)} waited`] : [];
  });
}

function wrongWithTimes(members: readonly Member[]): string[] {
  return members.flatMap(({ id, dueAt, replacedBy, calls: [first = Number.POSITIVE_INFINITY], orderedAt }) =>
    replacedBy === undefined && dueAt !== null && first < dueAt - EARLY_MS && orderedAt > first
      ? [`invented: ${id} started ${dueAt - first} ms before its time`]
      : [],
  );
}

/** The next command of the key replaces a command that waits for its time, and no other command. A replaced command does nothing. */
function wrongReplaced(members: readonly Member[]): string[] {
  return members.flatMap(({ id, replacedBy, dueAt, calls, commits, orderedAt }, index) => {
    const next = members[index + 1];
    if (replacedBy === undefined) {
      const isEarly = next && dueAt !== null && next.acceptedAt < dueAt - ONE_WRITE_MS && orderedAt > next.acceptedAt;
      return isEarly ? [`duplicate: ${id} runs, although ${next.id} followed ${dueAt - next.acceptedAt} ms before its time`] : [];
    }
    const done = calls.length + commits;
    return [
      ...(next?.id === replacedBy ? [] : [`lost: ${id} was replaced by ${replacedBy}, but ${next?.id} followed it`]),
      ...(next && dueAt !== null && next.acceptedAt > dueAt ? [`lost: ${id} was replaced after its time`] : []),
      ...(done > 0 ? [`duplicate: ${id} was replaced, and had ${done} effects`] : []),
    ];
  });
}

/** In each period at most the limit of starts is due, in the order of the acceptance. */
function wrongSpaces({ limit, periodMs }: { limit: number; periodMs: number }, members: readonly Member[]): string[] {
  // An operator who starts or stops a run moves its time.
  if (members.some(({ orderedAt, dueAt }) => orderedAt <= (dueAt ?? 0))) return [];
  return members.flatMap(({ id, dueAt }, index) => {
    const before = members[index - limit];
    if (dueAt === null) return [`invented: ${id} has no time to start`];
    if (!before || before.dueAt === null || dueAt - before.dueAt >= periodMs) return [];
    return [`duplicate: ${id} starts ${dueAt - before.dueAt} ms after ${before.id}, within ${periodMs} ms`];
  });
}

/** The requests of operators after which a run starts without a slot, stops, or starts at another time. */
const ORDERS = JSON.stringify(["retry", "undo", "cancel", "restart", "skip_step", "release", "pause", "resume", "close"]);
const OVER: ReadonlySet<string> = new Set(["complete", "errored", "terminated", "dead", "skipped"]);

async function memberOf({ rows, upstreamUrl }: Stage, { id, name }: Subject): Promise<Member & { place: number }> {
  const [[row], slots, statuses, calls] = await Promise.all([
    rows<Record<"place" | "accepted_at" | "commits", number> & Record<"due_at" | "ordered_at", number | null> & { error: string }>(
      `SELECT rowid AS place, accepted_at, due_at, iif(status = 'skipped', error, NULL) AS error,
         (SELECT min(at) FROM millrace_actions WHERE instance_id = ?1 AND result = 'applied' AND verb IN (SELECT value FROM json_each(?2)))
           AS ordered_at,
         (SELECT count(*) FROM probe_rows WHERE name LIKE ?3 AND kind = 'commit') AS commits
       FROM millrace_instances WHERE id = ?1`,
      id,
      ORDERS,
      `${name}/%`,
    ),
    rows<Slot>(
      "SELECT at_ms AS at, CAST(was AS INTEGER) AS turn, is_now AS status, epoch AS held FROM proof_journal WHERE instance_id = ?1 AND what = 'slot' ORDER BY proof_journal.at",
      id,
    ),
    rows<{ at: number; to: string }>(
      `SELECT at_ms AS at, is_now AS "to" FROM proof_journal WHERE instance_id = ?1 AND what = 'status' ORDER BY proof_journal.at`,
      id,
    ),
    callsOf(upstreamUrl, `${name}/`),
  ]);
  const error = JSON.parse(row?.error ?? "null") as { code: string; message: string } | null;
  return {
    id,
    place: row?.place ?? 0,
    acceptedAt: row?.accepted_at ?? 0,
    dueAt: row?.due_at ?? null,
    replacedBy: error?.code === "replaced" ? /: (\S+)\.$/.exec(error.message)?.[1] : undefined,
    // The change of a request precedes its audit, in one write.
    orderedAt: (row?.ordered_at ?? Number.POSITIVE_INFINITY) - ONE_WRITE_MS,
    slots,
    statuses,
    calls: calls.map(({ at }) => at),
    commits: row?.commits ?? 0,
  };
}
