import { queueBinding } from "../contract/bindings.ts";
import { codeOf, MillraceError, messageOf } from "../contract/errors.ts";
import { byteLength } from "../contract/limits.ts";
import { laneIn, MAX_DELAY_SECONDS } from "../contract/queue.ts";
import { within } from "../contract/within.ts";
import { sendInLanes } from "../lanes/relay.ts";
import { count } from "../observe/metrics/count.ts";
import { troubleOf } from "../store/d1/trouble.ts";
import type { Outgoing } from "../store/outbox.ts";

/**
 * Limits of a queue per call: 100 messages and 256 KB. The engine's limit is lower than 256 KB, because the platform adds bytes to each
 * message.
 */
const MAX_SEND_MESSAGES = 100;
const MAX_SEND_BYTES = 240_000;

/** A message that was not sent, with the queue's error. */
export interface SendFailure {
  id: string;
  error: string;
}

/**
 * Sends messages in as few calls as possible. The messages of a refused call are sent again in two halves, so that one refused message does
 * not block other messages. A call to an overloaded queue is not repeated. The function never throws. Unsent messages remain in the outbox,
 * and the keeper sends them.
 * A message with a delay above the limit of a queue is not sent, because the keeper starts its command.
 */
export async function relay(env: object, messages: readonly Outgoing[]): Promise<SendFailure[]> {
  const now = messages.filter(({ delaySeconds }) => delaySeconds <= MAX_DELAY_SECONDS);
  const groups = Map.groupBy(now, (message) => message.queue);
  return (await Promise.all([...groups].map(([queue, group]) => sendAll(env, queue, group)))).flat();
}

async function sendAll(env: object, queue: string, messages: readonly Outgoing[]): Promise<SendFailure[]> {
  if (laneIn(queue) !== undefined) {
    const failed = await sendInLanes(env, queue, messages);
    count(env, "queue_messages_sent_total", { queue }, messages.length - failed.length);
    return failed;
  }
  const failures: SendFailure[] = [];
  const line = { hangs: false };
  for (const chunk of chunks(messages)) failures.push(...(await send(env, queue, chunk, line)));
  return failures;
}

/** Sends a chunk of messages to a queue. `line.hangs` is true after a call to the queue has timed out. Then no further calls follow. */
async function send(env: object, queue: string, chunk: Outgoing[], line: { hangs: boolean }): Promise<SendFailure[]> {
  try {
    if (line.hangs) throw new MillraceError("unavailable", "The queue did not answer the previous call.");
    const sending = async () =>
      queueBinding(env, queue).sendBatch(
        chunk.map(({ body, delaySeconds }) => ({ body: JSON.parse(body), contentType: "json", ...(delaySeconds > 0 && { delaySeconds }) })),
      );
    await within(sending());
    count(env, "queue_messages_sent_total", { queue }, chunk.length);
    return [];
  } catch (error) {
    line.hangs ||= codeOf(error) === "unavailable";
    const hopeless = chunk.length === 1 || line.hangs || troubleOf(error) === "overloaded" || codeOf(error) === "config_invalid";
    if (hopeless) return chunk.map(({ id }) => ({ id, error: messageOf(error) }));
    const middle = Math.ceil(chunk.length / 2);
    return [...(await send(env, queue, chunk.slice(0, middle), line)), ...(await send(env, queue, chunk.slice(middle), line))];
  }
}

function chunks(messages: readonly Outgoing[]): Outgoing[][] {
  const all: Outgoing[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const message of messages) {
    const size = byteLength(message.body);
    const last = all.at(-1);
    if (last && last.length < MAX_SEND_MESSAGES && bytes + size <= MAX_SEND_BYTES) {
      last.push(message);
      bytes += size;
    } else {
      all.push([message]);
      bytes = size;
    }
  }
  return all;
}
