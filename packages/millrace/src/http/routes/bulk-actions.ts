import * as z from "zod";
import { parseEntryKey } from "../../contract/ids.ts";
import { aboutThese } from "../../inspect/about.ts";
import { type BulkItemRow, type BulkRow, getBulkAction, listBulkActions, listBulkItems } from "../../inspect/bulk-actions.ts";
import { hideOfTargets } from "../../inspect/dead-letters.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { planBulk, startBulk } from "../../operate/bulk/start.ts";
import { abort, resume } from "../../operate/bulk/steer.ts";
import { undoOf } from "../../operate/bulk/verbs.ts";
import { BULK_RESULTS } from "../../store/bulk-items.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import { bulkSchema, MAX_BULK_BYTES } from "../bulk-request.ts";
import type { HttpEnv } from "../env.ts";
import { idempotencyKey, keyHeader, replayedHeader, replayedHeaderSchema } from "../idempotency-key.ts";
import { NO_CURSOR, nameQuery, page, pageByName, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const STATES = ["running", "complete", "stopped", "aborted"] as const;

const BulkActionSchema = z
  .object({
    id: z.string(),
    verb: z.string(),
    state: z.enum(STATES).meta({
      description: "`stopped`: too many items of a stage failed, or its instance failed; see `why`. `aborted`: an operator halted it.",
    }),
    why: z.string().nullable().meta({ description: "The reason for the stop or the abort, and the next step; null otherwise." }),
    actor: z.string(),
    reason: z.string(),
    filter: z.record(z.string(), z.unknown()).nullable().meta({ description: "Null if ids were given." }),
    ramp: z.array(z.int()),
    rate_per_second: z.number(),
    stop_at_error_rate: z.number(),
    settle_within_seconds: z.number(),
    undo: z.boolean().nullable().meta({
      description: "True: the effects of the instances are undone where possible. False: they are kept. Null for a verb without undo.",
    }),
    matched: z.int().meta({ description: "The number of items, fixed at `created_at`: the sum of done, skipped, failed and left." }),
    done: z.int(),
    skipped: z.int().meta({
      description: "Items without anything left to do. The `why` of an item names an earlier action, if any.",
    }),
    failed: z.int().meta({ description: "Items that were refused, failed again, or have an unknown outcome (`in_doubt`)." }),
    left: z.int(),
    instance_id: z.string().meta({ description: "The instance that runs the bulk action." }),
    created_at: timestamp,
    updated_at: timestamp,
    ended_at: timestamp.nullable(),
  })
  .meta({ id: "BulkAction" });

const ItemSchema = z
  .object({
    n: z.int().meta({ description: "The position, starting at 0." }),
    target: z.string().meta({ description: "The id of the instance, dead letter or delivery, or the key of the effect." }),
    instance_id: z.string().nullable().meta({ description: "For an effect: its instance. Null for other items." }),
    about: z.string().nullable().meta({
      description:
        "A readable name: workflow and subject of an instance, for an effect with its step in front; type and key of a dead letter. Null for other items and for removed ones.",
    }),
    result: z.enum(BULK_RESULTS),
    code: z.string().nullable(),
    why: z.string().nullable().meta({ description: "The reason for the skip or failure, and the next step." }),
    action_id: z.string().meta({ description: "The id of the action in the audit." }),
    at: timestamp,
  })
  .meta({ id: "BulkItem" });

const PlanSchema = z
  .object({
    matched: z.int(),
    sample: z.array(
      z.object({
        id: z.string(),
        refused: z.string().nullable().meta({ description: "Why it would be refused now; null if it would be accepted." }),
      }),
    ),
    stages: z.array(z.int()).meta({ description: "The number of items of each stage." }),
    parts: z
      .array(z.object({ what: z.string(), count: z.int(), follows: z.string() }))
      .meta({ description: "For unknown outcomes: the count of each step and the consequence. Empty for other verbs." }),
    follows: z.string().nullable().meta({ description: "A warning, such as that the action is final; null if there is none." }),
  })
  .meta({ id: "BulkPlan" });

const params = z.object({ id: z.string() });
const READ_REFUSALS = ["unauthorized", "forbidden", "bulk_action_not_found", "invalid_payload"] as const;

const start = createRoute({
  method: "post",
  path: "/v1/bulk-actions",
  operationId: "startBulkAction",
  command: "bulk-actions start",
  summary: "Start a bulk action",
  description: [
    "Records the items that match now and applies the action to them in stages, at a rate per second. Verbs: `retry`, `cancel`, `pause`, `resume` and `close` for instances; `replay` and `skip` for dead letters; `reject` and `retry_anyway` for unknown outcomes; and verbs of this deployment.",
    "After each stage it waits until the started items have ended. It stops if too many items of a stage fail. A dry run only counts the matches.",
  ].join("\n\n"),
  ...needs("operate"),
  request: {
    headers: z.object(keyHeader("A repeat with the same key is the same bulk action.")),
    query: z.strictObject({}),
    body: jsonBody(bulkSchema),
  },
  responses: {
    200: answers("A dry run: the matching items", PlanSchema),
    202: {
      ...answers("It runs", BulkActionSchema.extend({ replayed: z.boolean() }).meta({ id: "StartedBulkAction" })),
      headers: replayedHeaderSchema,
    },
    ...problems(...BODY_REFUSALS, "idempotency_key_reused", "more_matched", "bulk_actions_running", "config_invalid"),
  },
});

const list = createRoute({
  method: "get",
  path: "/v1/bulk-actions",
  operationId: "listBulkActions",
  command: "bulk-actions list",
  summary: "List bulk actions, newest first",
  description: "Returns the bulk actions of your tenant. They are kept for 90 days after they end.",
  ...needs("read"),
  request: { query: z.strictObject({ state: z.enum(STATES).optional(), ...pageQuery }) },
  responses: {
    200: answers("A page of bulk actions", pageOf(BulkActionSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const show = createRoute({
  method: "get",
  path: "/v1/bulk-actions/{id}",
  operationId: "getBulkAction",
  command: "bulk-actions show",
  summary: "Get a bulk action with its progress",
  description: "Returns its state and the counts of done, skipped, failed and remaining items.",
  ...needs("read"),
  request: { params },
  responses: { 200: answers("The bulk action", BulkActionSchema), ...problems(...READ_REFUSALS) },
});

/** The cursor is the number of an item. */
const places = nameQuery(50, 200);
const placeCursor = places.cursor.refine((place) => place === undefined || /^\d{1,9}$/.test(place), NO_CURSOR);

const items = createRoute({
  method: "get",
  path: "/v1/bulk-actions/{id}/items",
  operationId: "listBulkItems",
  command: "bulk-actions items",
  summary: "List the results of a bulk action, in order of processing",
  description: "Returns each processed item with its result (done, skipped or failed) and the reason.",
  ...needs("read"),
  request: { params, query: z.strictObject({ result: z.enum(BULK_RESULTS).optional(), ...places, cursor: placeCursor }) },
  responses: { 200: answers("A page of results", pageOf(ItemSchema)), ...problems(...READ_REFUSALS) },
});

const steering = (verb: "abort" | "resume", summary: string, description: string) =>
  createRoute({
    method: "post",
    path: `/v1/bulk-actions/{id}/${verb}`,
    operationId: `${verb}BulkAction`,
    command: `bulk-actions ${verb}`,
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
  const view = (bulk: BulkRow) => bulkView(catalog, bulk);
  return new Routes<HttpEnv>()
    .openapi(start, async (context) => {
      const key = idempotencyKey(context.req.header("idempotency-key"));
      const { dry_run, at_most, rate_per_second, stop_at_error_rate, settle_within_seconds, ...asked } = await readBody(
        context.req,
        bulkSchema,
        {
          maxBytes: MAX_BULK_BYTES,
        },
      );
      const request = {
        ...asked,
        atMost: at_most,
        ratePerSecond: rate_per_second,
        stopAtErrorRate: stop_at_error_rate,
        settleWithinSeconds: settle_within_seconds,
      };
      if (dry_run) {
        const { sample, ...plan } = await planBulk(context.env, catalog, context.var.caller, request);
        const ids = sample.map(({ id }) => id);
        const hide = await hideOfTargets(context.env, context.var.caller, redactionOf(catalog), ids);
        return context.json(
          { ...plan, parts: [...plan.parts], sample: sample.map(({ id, refused }) => ({ id, refused: hide(id)(refused) })) },
          200,
        );
      }
      const { bulk, replayed } = await startBulk(context.env, catalog, context.var.caller, request, key);
      return context.json({ ...view(bulk), replayed }, 202, { location: `/v1/bulk-actions/${bulk.id}`, ...replayedHeader({ replayed }) });
    })
    .openapi(list, async (context) => {
      const found = await listBulkActions(context.env, context.var.caller, context.req.valid("query"));
      return context.json(page(found, view), 200);
    })
    .openapi(show, async (context) => {
      return context.json(view(await getBulkAction(context.env, context.var.caller, context.req.valid("param").id)), 200);
    })
    .openapi(items, async (context) => {
      const { result, cursor, limit } = context.req.valid("query");
      const behind = cursor === undefined ? undefined : Number(cursor);
      const found = await listBulkItems(context.env, context.var.caller, context.req.valid("param").id, { result, behind, limit });
      const about = await aboutThese(context.env, context.var.caller, found);
      // Stored texts of items are redacted already.
      return context.json(
        pageByName(
          found,
          limit,
          ({ n }) => String(n),
          (row) => ({ ...itemView(row), about: about(row) }),
        ),
        200,
      );
    })
    .openapi(abortRoute, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      const { actionId, bulk } = await abort(context.env, context.var.caller, context.req.valid("param").id, reason);
      return context.json({ ...view(bulk), action_id: actionId }, 202);
    })
    .openapi(resumeRoute, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      const { actionId, bulk } = await resume(context.env, catalog, context.var.caller, context.req.valid("param").id, reason);
      return context.json({ ...view(bulk), action_id: actionId }, 202);
    });
}

function bulkView(catalog: Catalog, { asked, ...bulk }: BulkRow): z.infer<typeof BulkActionSchema> {
  const { id, verb, state, why, actor, reason, matched, done, skipped, failed, left } = bulk;
  return {
    ...{ id, verb, state, why, actor, reason },
    filter: asked.filter && { ...asked.filter },
    ramp: [...asked.ramp],
    rate_per_second: asked.ratePerSecond,
    stop_at_error_rate: asked.stopAtErrorRate,
    settle_within_seconds: asked.settleWithinSeconds,
    undo: undoOf(catalog, verb, asked.undo),
    ...{ matched, done, skipped, failed, left },
    instance_id: bulk.instanceId,
    created_at: iso(bulk.createdAt),
    updated_at: iso(bulk.updatedAt),
    ended_at: isoOrNull(bulk.endedAt),
  };
}

function itemView({ actionId, at, ...item }: BulkItemRow): Omit<z.infer<typeof ItemSchema>, "about"> {
  return { ...item, instance_id: parseEntryKey(item.target)?.instanceId ?? null, action_id: actionId, at: iso(at) };
}
