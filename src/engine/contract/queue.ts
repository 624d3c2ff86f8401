import { MillraceError } from "./errors.ts";
import { beginning } from "./text.ts";

/** A queue, as messages name what they travel on. Who takes them from it, and how, its consumer says. */
export interface QueueDefinition {
  /**
   * `{purpose}[-{tenant}]`: lower case letters, digits and dashes, at most 59. Its dead-letter queue is this name and `-dlq`. That of a lane
   * begins with `lane:`.
   */
  readonly name: string;
}

/** The longest that a queue is asked to hold a message back: 12 hours. */
export const MAX_DELAY_SECONDS = 43_200;

/** The platform's longest name of a queue, less what its dead-letter queue has behind it. */
const MAX_NAME = 63 - "-dlq".length;

/**
 * Declares a queue, for the messages that travel on it and for its consumer. Errors: `config_invalid` for a name that the platform would
 * refuse for it or for its dead-letter queue.
 */
export function defineQueue({ name }: QueueDefinition): QueueDefinition {
  if (name.length > MAX_NAME || !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(name)) {
    throw new MillraceError(
      "config_invalid",
      `"${beginning(name, MAX_NAME)}" is not a queue name: use lower case letters, digits and single dashes, at most ${MAX_NAME} of them.`,
    );
  }
  return { name };
}

/** Most messages a second that are asked for by a rate; more is as good as no rate. */
export const MAX_RATE_PER_SECOND = 1000;

/**
 * Seconds by which the nth of several messages, from 0, is held back so that so many go a second: whole seconds, as queues count. Errors:
 * `invalid_payload` for one that would wait longer than a queue holds it.
 */
export function staggered(index: number, ratePerSecond: number | undefined): number {
  const seconds = ratePerSecond === undefined ? 0 : Math.floor(index / ratePerSecond);
  if (seconds <= MAX_DELAY_SECONDS) return seconds;
  const message = `is so low that message ${index + 1} would wait longer than 12 hours`;
  throw new MillraceError("invalid_payload", `The rate per second ${message}.`, { issues: [{ path: "rate_per_second", message }] });
}

const LANE = "lane:";

/**
 * Declares a queue that keeps order: its messages are taken one after another for each subject, and subjects go side by side. Errors:
 * `config_invalid` for a name that is not lower case letters, digits and dashes, at most 63, beginning with a letter.
 */
export function defineLaneQueue({ name }: QueueDefinition): QueueDefinition {
  if (/^[a-z][a-z0-9-]{0,62}$/.test(name)) return { name: LANE + name };
  throw new MillraceError("config_invalid", `"${name}" is not a lane's name: use lower case letters, digits and dashes.`);
}

/** The lane that a queue's name stands for; undefined for a queue of the platform's. */
export function laneIn(queue: string | null): string | undefined {
  return queue?.startsWith(LANE) ? queue.slice(LANE.length) : undefined;
}
