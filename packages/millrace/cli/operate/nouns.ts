import { approvals } from "./approvals.ts";
import { deadLetters } from "./dead-letters.ts";
import { effects } from "./effects.ts";
import { enqueue } from "./enqueue.ts";
import { instances } from "./instances.ts";
import { queues } from "./queues.ts";
import { search } from "./search.ts";
import type { Noun } from "./verb.ts";

/** The nouns of `npx millrace`. launch.js has the names too. */
export const NOUNS: Readonly<Record<string, Noun>> = {
  enqueue,
  instances,
  effects,
  approvals,
  "dead-letters": deadLetters,
  queues,
  search,
};
