import { type ErrorCode, MillraceError } from "../../contract/errors.ts";
import { digest } from "../../contract/ids.ts";
import { query } from "../../store/d1/retry.ts";
import { type Stream, type StreamMove, selectStreams } from "../../store/sequences.ts";
import type { GapRule } from "../../topology/consumer.ts";
import type { Intake, Outcomes } from "../consumer.ts";
import type { ReadMessage } from "./read.ts";

/** A message that its stream accepts now, with the new position of the stream. */
export interface InTurn extends ReadMessage {
  readonly move?: StreamMove;
  /** True when a message with the same sequence number was accepted before. Then this message has no consequences. */
  readonly isOver?: true;
}

/**
 * Sorts the numbered messages of a batch by stream, and returns the messages that their streams accept now. For all other numbered
 * messages, the queue's gap rule determines the outcome. Messages without a number, and all messages of a queue without a gap rule, are
 * returned too.
 */
export async function inOrder({ env, consumer }: Intake, read: readonly ReadMessage[], outcomes: Outcomes): Promise<InTurn[]> {
  const { sequence: rule } = consumer;
  if (rule === undefined) return [...read];
  // The stream's id contains the declared queue, so that the stream continues when messages arrive through a different queue with the same
  // definition.
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

/** Returns the messages that one stream accepts now, in the order of their numbers. */
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
    // The first message with this number may not be committed yet. If this repeat were confirmed now, both messages could be lost.
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

/** The missing positions from `next` to `place` - 1, at most the last hundred of these positions. */
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

/** The error of a message that must wait because the preceding message of the stream is not accepted yet. */
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
