import { type ErrorCode, MillraceError } from "../../contract/errors.ts";
import { digest } from "../../contract/ids.ts";
import { query } from "../../store/d1/retry.ts";
import { type Stream, type StreamMove, selectStreams } from "../../store/sequences.ts";
import type { GapRule } from "../../topology/consumer.ts";
import type { Intake, Outcomes } from "../consumer.ts";
import type { ReadMessage } from "./read.ts";

/** A message in the order of its stream, with the stream's new position. */
export interface InTurn extends ReadMessage {
  readonly move?: StreamMove;
  /** True when a message with the same sequence number was accepted before: this message has no consequences. */
  readonly isOver?: true;
}

/**
 * Sorts the numbered messages of a batch by stream, and returns the next ones. The queue's gap rule sets the outcome of the others. In a
 * queue without a gap rule, and for messages without a number, all messages are returned.
 */
export async function inOrder({ env, consumer }: Intake, read: readonly ReadMessage[], outcomes: Outcomes): Promise<InTurn[]> {
  const { sequence: rule } = consumer;
  if (rule === undefined) return [...read];
  // The stream is named by the declared queue, so that it continues when messages arrive through another queue of the same definition.
  const streamOf = ({ envelope: { tenant_id, source, subject, sequence }, definition: { queue } }: ReadMessage) =>
    sequence === undefined ? undefined : digest("stream", queue.name, tenant_id, source, subject);
  const streams = Map.groupBy(read, streamOf);
  const free = streams.get(undefined) ?? [];
  streams.delete(undefined);
  if (streams.size === 0) return free;
  const rows = await query<{ id: string; last: number; missing: string }>(env.DB, selectStreams([...streams.keys()].map(String)));
  const known = new Map(rows.map(({ id, last, missing }) => [id, { id, last, missing: JSON.parse(missing) as number[] }]));
  const numbered = [...streams].flatMap(([id = "", messages]) => {
    const stream = known.get(id) ?? { id, last: 0, missing: [] };
    return takeTurns(stream, rule, messages, outcomes);
  });
  return [...free, ...numbered];
}

/** Returns the messages that are next in one stream, in order. */
function takeTurns(stream: Stream, rule: GapRule, messages: readonly ReadMessage[], outcomes: Outcomes): InTurn[] {
  const turns: InTurn[] = [];
  let { last } = stream;
  for (const one of messages.toSorted((a, b) => placeOf(a) - placeOf(b))) {
    const place = placeOf(one);
    if (place <= Math.max(stream.last, rule.first)) {
      // A replay by an operator is always accepted.
      if (one.envelope.replay !== undefined) turns.push(one);
      else if (place <= rule.first) outcomes.set(one.message, { did: "refused", error: beforeFirst(one, rule) });
      else if (stream.missing.includes(place)) outcomes.set(one.message, { did: "refused", error: tooLate(one) });
      else turns.push({ ...one, isOver: true });
      continue;
    }
    // The earlier message with this number may not be committed yet: to confirm this repeat could lose both messages.
    if (place <= last) {
      outcomes.set(one.message, { did: "retried", error: stuckBehind(one), unharmed: true });
      continue;
    }
    const next = Math.max(last, rule.first) + 1;
    const isNext = place === next;
    if (!isNext && !mayPass(rule, one)) {
      outcomes.set(one.message, { did: "retried", error: gapBefore(one, last), ...(rule.gap === "wait" && { unharmed: true }) });
      continue;
    }
    const missing = rule.gap === "wait" && !isNext ? between(next, place) : [];
    turns.push({ ...one, move: { id: stream.id, from: last, to: place, missing } });
    last = place;
  }
  return turns;
}

/** The position of a message in its stream, starting at 1. Sequence numbers may start at 0. */
const placeOf = ({ envelope }: ReadMessage): number => (envelope.sequence ?? 0) + 1;

function mayPass(rule: GapRule, { envelope }: ReadMessage): boolean {
  if (rule.gap === "wait") return Date.now() - Date.parse(envelope.created_at) >= rule.limitMs;
  return rule.gap === "skip";
}

/** The missing positions from `next` up to the one before `place`; only the newest hundred. */
function between(next: number, place: number): number[] {
  const first = Math.max(next, place - 100);
  return Array.from({ length: place - first }, (_, index) => first + index);
}

const OUT_OF_ORDER: ErrorCode = "out_of_order";

function gapBefore({ envelope }: ReadMessage, last: number): MillraceError {
  const before = last === 0 ? "nothing" : `number ${last - 1}`;
  return new MillraceError(
    OUT_OF_ORDER,
    `The message has number ${envelope.sequence} of "${envelope.source}" for its subject, but there is a gap after ${before}. Send the missing messages.`,
  );
}

/** The error of a message before the acceptance of its predecessor in the stream. */
export function stuckBehind({ envelope }: ReadMessage): MillraceError {
  return new MillraceError(
    OUT_OF_ORDER,
    `The message has number ${envelope.sequence} of its stream, and the message before it is not accepted yet.`,
  );
}

function beforeFirst({ envelope, definition: { queue } }: ReadMessage, { first }: GapRule): MillraceError {
  return new MillraceError(
    OUT_OF_ORDER,
    `The message has number ${envelope.sequence}, but the numbers of ${queue.name} start with ${first}: set "first: 0" in the sequence of its consumer. Replay the message if it is still valid.`,
  );
}

function tooLate({ envelope }: ReadMessage): MillraceError {
  return new MillraceError(
    OUT_OF_ORDER,
    `The message has number ${envelope.sequence} of "${envelope.source}" for its subject, but came too late: later messages were accepted without it. Replay it if it is still valid.`,
  );
}
