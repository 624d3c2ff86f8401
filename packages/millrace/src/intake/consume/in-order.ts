import { type ErrorCode, MillraceError } from "../../contract/errors.ts";
import { digest } from "../../contract/ids.ts";
import { query } from "../../store/d1/retry.ts";
import { type Stream, type StreamMove, selectStreams } from "../../store/sequences.ts";
import type { GapRule } from "../../topology/consumer.ts";
import type { Intake, Outcomes } from "../consumer.ts";
import type { ReadMessage } from "./read.ts";

/** A message whose turn it is, and what its intake moves on. */
export interface InTurn extends ReadMessage {
  readonly move?: StreamMove;
  /** True for one whose place in its stream was taken before: nothing follows from it any more. */
  readonly isOver?: true;
}

/**
 * Brings the numbered messages of a batch into the order of their streams, and lets through those whose turn it is; what becomes of the
 * others is said in `outcomes`, by the queue's rule for gaps. Where that has none, and for messages without a number, all go through.
 */
export async function inOrder({ env, consumer }: Intake, read: readonly ReadMessage[], outcomes: Outcomes): Promise<InTurn[]> {
  const { sequence: rule } = consumer;
  if (rule === undefined) return [...read];
  // By the declared queue: a stream goes on where it was when its messages come by another of the queues that it stands for.
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

/** The messages of one stream whose turn it is, one after another. */
function takeTurns(stream: Stream, rule: GapRule, messages: readonly ReadMessage[], outcomes: Outcomes): InTurn[] {
  const turns: InTurn[] = [];
  let { last } = stream;
  for (const one of messages.toSorted((a, b) => placeOf(a) - placeOf(b))) {
    const place = placeOf(one);
    if (place <= Math.max(stream.last, rule.first)) {
      // A replay is an operator's word that it still counts.
      if (one.envelope.replay !== undefined) turns.push(one);
      else if (place <= rule.first) outcomes.set(one.message, { did: "refused", error: beforeFirst(one, rule) });
      else if (stream.missing.includes(place)) outcomes.set(one.message, { did: "refused", error: tooLate(one) });
      else turns.push({ ...one, isOver: true });
      continue;
    }
    // Whether the other one of this number is taken in is not known yet: a repeat that is confirmed before it could be all that is left.
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

/** Numbers begin with 0, places with 1. */
const placeOf = ({ envelope }: ReadMessage): number => (envelope.sequence ?? 0) + 1;

function mayPass(rule: GapRule, { envelope }: ReadMessage): boolean {
  if (rule.gap === "wait") return Date.now() - Date.parse(envelope.created_at) >= rule.limitMs;
  return rule.gap === "skip";
}

/** The places from one up to another, without that; the newest hundred. */
function between(next: number, place: number): number[] {
  const first = Math.max(next, place - 100);
  return Array.from({ length: place - first }, (_, index) => first + index);
}

const OUT_OF_ORDER: ErrorCode = "out_of_order";

function gapBefore({ envelope }: ReadMessage, last: number): MillraceError {
  const before = last === 0 ? "nothing" : `number ${last - 1}`;
  return new MillraceError(
    OUT_OF_ORDER,
    `It is number ${envelope.sequence} of "${envelope.source}" about its subject, and behind ${before} there is a gap. Send what is missing.`,
  );
}

/** Why a message comes back whose turn is not reached: the one before it in its stream is not taken in yet. */
export function stuckBehind({ envelope }: ReadMessage): MillraceError {
  return new MillraceError(OUT_OF_ORDER, `It is number ${envelope.sequence} of its stream, and the one before it is not taken in yet.`);
}

function beforeFirst({ envelope, definition: { queue } }: ReadMessage, { first }: GapRule): MillraceError {
  return new MillraceError(
    OUT_OF_ORDER,
    `It is number ${envelope.sequence}, and the numbers of ${queue.name} begin with ${first}: let its consumer say "first: 0" in sequence. Replay it if it counts.`,
  );
}

function tooLate({ envelope }: ReadMessage): MillraceError {
  return new MillraceError(
    OUT_OF_ORDER,
    `It is number ${envelope.sequence} of "${envelope.source}" about its subject: later ones have gone on without it, because it came too late. Replay it if it still counts.`,
  );
}
