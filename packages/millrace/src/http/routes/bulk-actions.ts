import * as z from "zod";
import { BulkAction, BulkFilter, BulkItem, getBulkAction, listBulkActions, listBulkItems } from "../../inspect/bulk-actions.ts";
import { hideOfTargets } from "../../inspect/dead-letters.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { BulkPlan, BulkRequest, planBulk, StartedBulk, startBulk } from "../../operate/bulk/start.ts";
import { abort, resume } from "../../operate/bulk/steer.ts";
import { BULK_RESULTS } from "../../store/bulk-items.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { idempotencyKey, keyHeader, replayedHeader, replayedHeaderSchema } from "../idempotency-key.ts";
import { NO_CURSOR, nameQuery, page, pageByName, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers, reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const BulkActionSchema = BulkAction.meta({ id: "BulkAction" });

/** Size limit of the request body: enough for 10,000 ids of the maximum length, as JSON. */
const MAX_BULK_BYTES = 1_500_000;

const bulkSchema = reasoned.extend({
  ...BulkRequest.shape,
  dry_run: z.boolean().default(false).meta({ description: "True only counts the matches and checks the first ten. It changes nothing." }),
});

const params = z.object({ id: z.string() });

const start = createRoute({
  ...at("post", "/v1/bulk-actions", "startBulkAction", "bulk-actions start"),
  summary: "Start a bulk action",
  description: [
    "Records the items that match now and applies the action to them in stages, at a rate per second. Verbs: `retry`, `cancel`, `pause`, `resume` and `close` for instances, `move` and `release` for delayed commands; `replay` and `skip` for dead letters; `reject` and `retry_anyway` for unknown outcomes; and verbs of this deployment.",
    "After each stage it waits until the started items have ended. It stops if too many items of a stage fail. A dry run only counts the matches.",
  ].join("\n\n"),
  ...needs("operate"),
  request: {
    headers: z.object(keyHeader("A repeat with the same key is the same bulk action.")),
    query: z.strictObject({}),
    body: jsonBody(bulkSchema),
  },
  responses: {
    200: answers("A dry run: the matching items", BulkPlan),
    202: {
      ...answers("It runs", StartedBulk),
      headers: replayedHeaderSchema,
    },
    ...problems(...BODY_REFUSALS, "idempotency_key_reused", "more_matched", "bulk_actions_running", "config_invalid"),
  },
});

const list = createRoute({
  ...at("get", "/v1/bulk-actions", "listBulkActions", "bulk-actions list"),
  summary: "List bulk actions, newest first",
  description: "Returns the bulk actions of your tenant. They are kept for 90 days after they end.",
  ...needs("read"),
  request: { query: BulkFilter.extend(pageQuery).strict() },
  responses: reads("A page of bulk actions", pageOf(BulkActionSchema)),
});

const show = createRoute({
  ...at("get", "/v1/bulk-actions/{id}", "getBulkAction", "bulk-actions show"),
  summary: "Get a bulk action with its progress",
  description: "Returns its state and the counts of done, skipped, failed and remaining items.",
  ...needs("read"),
  request: { params },
  responses: reads("The bulk action", BulkActionSchema, "bulk_action_not_found"),
});

/** The cursor of a bulk action's results is the number of an item. */
const places = nameQuery(50, 200);
const placeCursor = places.cursor.refine((place) => place === undefined || /^\d{1,9}$/.test(place), NO_CURSOR);

const items = createRoute({
  ...at("get", "/v1/bulk-actions/{id}/items", "listBulkItems", "bulk-actions items"),
  summary: "List the results of a bulk action, in order of processing",
  description: "Returns each processed item with its result (done, skipped or failed) and the reason.",
  ...needs("read"),
  request: { params, query: z.strictObject({ result: z.enum(BULK_RESULTS).optional(), ...places, cursor: placeCursor }) },
  responses: reads("A page of results", pageOf(BulkItem), "bulk_action_not_found"),
});

const steering = (verb: "abort" | "resume", summary: string, description: string) =>
  createRoute({
    ...at("post", `/v1/bulk-actions/{id}/${verb}`, `${verb}BulkAction`, `bulk-actions ${verb}`),
    summary,
    description,
    ...needs("operate"),
    request: { params, body: jsonBody(reasoned) },
    responses: {
      202: answers(
        verb === "abort" ? "It is halted" : "It continues",
        BulkActionSchema.extend({ action_id: z.string() }).meta({ id: "SteeredBulkAction" }),
      ),
      ...problems(...BODY_REFUSALS, "bulk_action_not_found", "invalid_transition", "bulk_actions_running", "config_invalid"),
    },
  });

const abortRoute = steering(
  "abort",
  "Halt a bulk action",
  "Starts no further item after at most a second. Finished items remain as they are.",
);
const resumeRoute = steering(
  "resume",
  "Resume a bulk action",
  "Continues an aborted or stopped bulk action with the remaining items, at the stage where it ended. Failed items are not retried: start another bulk action for them.",
);

export function bulkActions(catalog: Catalog) {
  return new Routes<HttpEnv>()
    .openapi(start, async (context) => {
      const key = idempotencyKey(context.req.header("idempotency-key"));
      const { dry_run, ...request } = await readBody(context.req, bulkSchema, { maxBytes: MAX_BULK_BYTES });
      if (dry_run) {
        const { sample, ...plan } = await planBulk(context.env, catalog, context.var.caller, request);
        const ids = sample.map(({ id }) => id);
        const hide = await hideOfTargets(context.env, context.var.caller, redactionOf(catalog), ids);
        return context.json({ ...plan, sample: sample.map(({ id, refused }) => ({ id, refused: hide(id)(refused) })) }, 200);
      }
      const bulk = await startBulk(context.env, catalog, context.var.caller, request, key);
      return context.json(bulk, 202, { location: `/v1/bulk-actions/${bulk.id}`, ...replayedHeader(bulk) });
    })
    .openapi(list, async (context) => {
      const found = await listBulkActions(context.env, context.var.caller, context.req.valid("query"));
      return context.json(page(found), 200);
    })
    .openapi(show, async (context) => {
      return context.json(await getBulkAction(context.env, context.var.caller, context.req.valid("param").id), 200);
    })
    .openapi(items, async (context) => {
      const { result, cursor, limit } = context.req.valid("query");
      const behind = cursor === undefined ? undefined : Number(cursor);
      const found = await listBulkItems(context.env, context.var.caller, context.req.valid("param").id, { result, behind, limit });
      // Stored texts of a bulk action's items are redacted already.
      return context.json(
        pageByName(found, limit, ({ n }) => String(n)),
        200,
      );
    })
    .openapi(abortRoute, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      return context.json(await abort(context.env, context.var.caller, context.req.valid("param").id, reason), 202);
    })
    .openapi(resumeRoute, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      return context.json(await resume(context.env, catalog, context.var.caller, context.req.valid("param").id, reason), 202);
    });
}
