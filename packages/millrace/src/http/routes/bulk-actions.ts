import * as z from "zod";
import { BulkAction, BulkFilter, BulkItem, getBulkAction, listBulkActions, listBulkItems } from "../../inspect/bulk-actions.ts";
import { hideOfTargets } from "../../inspect/dead-letters.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { abort, BulkPlan, BulkRequest, planBulk, resume, StartedBulk, startBulk } from "../../operate/bulk/start.ts";
import { BULK_RESULTS } from "../../store/bulk-items.ts";
import { operation, reasoned } from "../operation.ts";
import { NO_CURSOR, nameQuery, page, pageByName, pageOf, pageQuery } from "../paging.ts";

const BulkActionSchema = BulkAction.meta({ id: "BulkAction" });
const SteeredSchema = BulkActionSchema.extend({ action_id: z.string() }).meta({ id: "SteeredBulkAction" });

/** Size limit of the request body: enough for 10,000 ids of the maximum length, as JSON. */
const MAX_BULK_BYTES = 1_500_000;

/** The cursor of a bulk action's results is the number of an item. */
const places = nameQuery(50, 200);
const placeCursor = places.cursor.refine((place) => place === undefined || /^\d{1,9}$/.test(place), NO_CURSOR);

const steering = {
  body: reasoned,
  status: 202,
  problems: ["bulk_action_not_found", "invalid_transition", "bulk_actions_running", "config_invalid"],
} as const;

export const bulkActions = [
  operation("post", "/v1/bulk-actions", "startBulkAction", "bulk-actions start", {
    summary: "Start a bulk action",
    description: [
      "Records the items that match now and applies the action to them in stages, at a rate per second. After each stage it waits until the started items have ended. It stops if too many items of a stage fail. A dry run only counts the matches.",
      "Verbs: `retry`, `cancel`, `pause`, `resume` and `close` for instances, `move` and `release` for delayed commands; `replay` and `skip` for dead letters; `reject` and `retry_anyway` for unknown outcomes; and verbs of this deployment.",
    ].join("\n\n"),
    key: "A repeat with the same key is the same bulk action.",
    body: reasoned.extend({
      ...BulkRequest.shape,
      dry_run: z.boolean().default(false).describe("True only counts the matches and checks the first ten. It changes nothing."),
    }),
    limits: { maxBytes: MAX_BULK_BYTES },
    plan: {
      answer: ["A dry run: the matching items", BulkPlan],
      async run({ env, by, catalog, body }) {
        const { sample, ...plan } = await planBulk(env, catalog, by, body);
        const ids = sample.map(({ id }) => id);
        const hide = await hideOfTargets(env, by, redactionOf(catalog), ids);
        return { ...plan, sample: sample.map(({ id, refused }) => ({ id, refused: hide(id)(refused) })) };
      },
    },
    answer: ["It runs", StartedBulk],
    status: 202,
    problems: ["idempotency_key_reused", "more_matched", "bulk_actions_running", "config_invalid"],
    async run({ env, by, catalog, body, key, context }) {
      const bulk = await startBulk(env, catalog, by, body, key);
      context.header("location", `/v1/bulk-actions/${bulk.id}`);
      return bulk;
    },
  }),
  operation("get", "/v1/bulk-actions", "listBulkActions", "bulk-actions list", {
    summary: "List bulk actions, newest first",
    description: "Returns the bulk actions of your tenant. They are kept for 90 days after they end.",
    query: { ...BulkFilter.shape, ...pageQuery },
    answer: ["A page of bulk actions", pageOf(BulkActionSchema)],
    run: async ({ env, by, query }) => page(await listBulkActions(env, by, query)),
  }),
  operation("get", "/v1/bulk-actions/{id}", "getBulkAction", "bulk-actions show", {
    summary: "Get a bulk action with its progress",
    description: "Returns its state and the counts of done, skipped, failed and remaining items.",
    answer: ["The bulk action", BulkActionSchema],
    problems: ["bulk_action_not_found"],
    run: ({ env, by, param }) => getBulkAction(env, by, param.id),
  }),
  operation("get", "/v1/bulk-actions/{id}/items", "listBulkItems", "bulk-actions items", {
    summary: "List the results of a bulk action, in order of processing",
    description: "Returns each processed item with its result (done, skipped or failed) and the reason.",
    query: { result: z.enum(BULK_RESULTS).optional(), ...places, cursor: placeCursor },
    answer: ["A page of results", pageOf(BulkItem)],
    problems: ["bulk_action_not_found"],
    async run({ env, by, param, query: { result, cursor, limit } }) {
      const behind = cursor === undefined ? undefined : Number(cursor);
      const found = await listBulkItems(env, by, param.id, { result, behind, limit });
      // Stored texts of a bulk action's items are redacted already.
      return pageByName(found, limit, ({ n }) => String(n));
    },
  }),
  operation("post", "/v1/bulk-actions/{id}/abort", "abortBulkAction", "bulk-actions abort", {
    summary: "Halt a bulk action",
    "x-final": "Items already started are not reverted.",
    description: "Starts no further item after at most a second. Finished items remain as they are.",
    ...steering,
    answer: ["It is halted", SteeredSchema],
    run: ({ env, by, param, body }) => abort(env, by, param.id, body.reason),
  }),
  operation("post", "/v1/bulk-actions/{id}/resume", "resumeBulkAction", "bulk-actions resume", {
    summary: "Resume a bulk action",
    description:
      "Continues an aborted or stopped bulk action with the remaining items, at the stage where it ended. Failed items are not retried: start another bulk action for them.",
    ...steering,
    answer: ["It continues", SteeredSchema],
    run: ({ env, by, catalog, param, body }) => resume(env, catalog, by, param.id, body.reason),
  }),
];
