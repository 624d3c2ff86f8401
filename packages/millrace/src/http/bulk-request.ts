import * as z from "zod";
import {
  DEFAULT_ERROR_RATE,
  DEFAULT_RAMP,
  DEFAULT_RATE,
  DEFAULT_SETTLE_SECONDS,
  MAX_RATE,
  MAX_SETTLE_SECONDS,
} from "../operate/bulk/ramp.ts";
import { MAX_MATCHED } from "../store/bulk-lists.ts";
import { reasoned } from "./actions.ts";

/** Ids that one request names: what is more is meant by a filter. */
const MAX_IDS = 10_000;
/** As many ids of the longest kind as may be, in JSON. */
export const MAX_BULK_BYTES = 1_500_000;

/** A bulk action as it is asked for. */
export const bulkSchema = reasoned.extend({
  verb: z.string().min(1).max(32).meta({
    description:
      "What is done to each: `retry`, `cancel`, `pause`, `resume`, `close`, `replay`, `skip`, `reject`, `retry_anyway`, or a verb of this deployment.",
  }),
  filter: z.record(z.string(), z.unknown()).optional().meta({
    description:
      "Which things are meant, of those that are there at the click. Of instances: `status` (has to be said of `cancel` and `pause`; default `errored`, of `resume` `paused`), `workflow`, `subject`, `correlation`, `since`, `until`, and of `retry` and `close` `cause`, `undone`; of dead letters (`replay`, `skip`): `queue`, `message_type`, `reason`, `cause`, `since`, `until`; of effects in doubt (`reject`, `retry_anyway`): `workflow`, `step`, `subject`, `correlation`, `since`, `until`. `{}` is all of them.",
  }),
  ids: z
    .array(z.string().regex(/^[A-Za-z0-9_-]{1,4000}$/, "must be an id"))
    .min(1)
    .max(MAX_IDS)
    .optional(),
  dry_run: z.boolean().default(false).meta({ description: "True only says what matches, and what of the first ten would be refused." }),
  undo: z
    .boolean()
    .optional()
    .meta({ description: "Of `cancel`: false leaves standing what they did. Default true: it is taken back, where it can be." }),
  at_most: z.int().min(1).max(MAX_MATCHED).optional().meta({
    description: "How many it may be about, as a dry run has counted them: where more match by now, nothing is done. Default 100,000.",
  }),
  ramp: z
    .array(z.int().min(1).max(MAX_MATCHED))
    .max(20)
    .optional()
    .meta({ description: `The sizes of the first stages; the rest is the last one. Default ${DEFAULT_RAMP.join(", ")}.` }),
  rate_per_second: z
    .number()
    .min(0.1)
    .max(MAX_RATE)
    .optional()
    .meta({ description: `How many are acted upon in a second. Default ${DEFAULT_RATE}.` }),
  stop_at_error_rate: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .meta({
      description: `The share of a stage that may fail: above it the bulk action stops itself. Default ${DEFAULT_ERROR_RATE}; 1 never stops.`,
    }),
  settle_within_seconds: z
    .int()
    .min(0)
    .max(MAX_SETTLE_SECONDS)
    .optional()
    .meta({
      description: `How long a thing has to come to its end before the next stage begins without it. Default ${DEFAULT_SETTLE_SECONDS}.`,
    }),
});
