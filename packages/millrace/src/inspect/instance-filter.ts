// These schemas are loaded with the routes. `instances.ts`, which every Worker loads at its start, imports only their types.

import * as z from "zod";
import { KNOWN_NAMES } from "../contract/known-fields.ts";
import { component } from "../contract/row.ts";
import type { PageRequest } from "../store/d1/paging.ts";
import { INSTANCE_STATUSES } from "../store/instances/status.ts";
import { ACTIVITIES } from "./activity.ts";

export const CountFilter = z.object({
  workflow: z.string().optional().describe(KNOWN_NAMES),
  subject: z.string().optional(),
  correlation: z.string().optional(),
  tag: z.string().optional().describe("Instances with this tag."),
  since: z.iso
    .datetime({ offset: true })
    .transform((time) => Date.parse(time))
    .optional()
    .describe("Accepted at or after this time."),
});
export type CountFilter = z.output<typeof CountFilter>;

export const InstanceFilter = z.object({
  status: z.enum(INSTANCE_STATUSES).optional(),
  activity: z
    .optional(z.enum(ACTIVITIES))
    .describe(
      "Only running instances that are delayed (`due_at` in the future), held, retrying, sleeping or waiting, as far as a list has this. The field with that name has the details.",
    ),
  ...CountFilter.shape,
  version: z.int().optional(),
  parent: z.string().optional().describe("Children of this instance."),
  cause: z.string().optional().describe("An `id` of `/v1/instances/causes`: errored instances of this cause."),
  overdue: z
    .optional(z.enum(["true"]).transform(() => true))
    .describe("Only running instances past their `must_end_by`, most recent deadline first."),
});
export type InstanceFilter = z.output<typeof InstanceFilter> & PageRequest;

export const StatusCount = component("StatusCount", {
  status: z.enum(INSTANCE_STATUSES),
  count: z.int().max(1000),
  more: z.boolean().describe("True if there are, or may be, more than `count`."),
});
export type StatusCount = z.infer<typeof StatusCount>;
