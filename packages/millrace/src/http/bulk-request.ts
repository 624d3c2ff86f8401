import * as z from "zod";
import { INSTANCE_VERBS } from "../operate/bulk/instance-verbs.ts";
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

const OF_INSTANCES = INSTANCE_VERBS.map(({ name }) => `\`${name}\``).join(", ");

/** Maximum number of ids in one request. Use a filter for more instances. */
const MAX_IDS = 10_000;
/** Size limit of the request body: enough for 10,000 ids of the maximum length, as JSON. */
export const MAX_BULK_BYTES = 1_500_000;

export const bulkSchema = reasoned.extend({
  verb: z
    .string()
    .min(1)
    .max(32)
    .meta({
      description: `The action on each item: ${OF_INSTANCES}, \`replay\`, \`skip\`, \`reject\`, \`retry_anyway\`, or a verb of this deployment.`,
    }),
  filter: z.record(z.string(), z.unknown()).optional().meta({
    description:
      "Selects items that exist when the request arrives; `{}` selects all. Fields for instances: `status` (default `errored` for `retry` and `close`, `paused` for `resume`, `accepted` for `move` and `release`; otherwise required), `workflow`, `subject`, `correlation`, `tag`, `since`, `until`, and for instances that may be errored also `cause`, `undone`. Fields for dead letters (`replay`, `skip`): `queue`, `message_type`, `reason`, `cause`, `since`, `until`. Fields for unknown outcomes (`reject`, `retry_anyway`): `workflow`, `step`, `subject`, `correlation`, `since`, `until`.",
  }),
  ids: z
    .array(z.string().regex(/^[A-Za-z0-9_-]{1,4000}$/, "must be an id"))
    .min(1)
    .max(MAX_IDS)
    .optional(),
  dry_run: z.boolean().default(false).meta({ description: "True only counts the matches and checks the first ten. It changes nothing." }),
  undo: z
    .boolean()
    .optional()
    .meta({ description: "For `cancel`: true undoes the effects of the instances where possible, false keeps them. Default true." }),
  run_at: z.iso.datetime({ offset: true }).optional().meta({ description: "For `move`: the new due time of the delayed commands." }),
  at_most: z.int().min(1).max(MAX_MATCHED).optional().meta({
    description:
      "The highest number of items, such as the count of a dry run. If more items match, the request is refused. Default 100,000.",
  }),
  ramp: z
    .array(z.int().min(1).max(MAX_MATCHED))
    .max(20)
    .optional()
    .meta({ description: `The sizes of the first stages; the last stage has the remaining items. Default ${DEFAULT_RAMP.join(", ")}.` }),
  rate_per_second: z
    .number()
    .min(0.1)
    .max(MAX_RATE)
    .optional()
    .meta({ description: `Items per second. Default ${DEFAULT_RATE}.` }),
  stop_at_error_rate: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .meta({
      description: `The share of failed items in a stage above which the bulk action stops. Default ${DEFAULT_ERROR_RATE}; 1 never stops.`,
    }),
  settle_within_seconds: z
    .int()
    .min(0)
    .max(MAX_SETTLE_SECONDS)
    .optional()
    .meta({
      description: `Seconds to wait for the items of a stage to end before the next stage starts. Default ${DEFAULT_SETTLE_SECONDS}.`,
    }),
});
