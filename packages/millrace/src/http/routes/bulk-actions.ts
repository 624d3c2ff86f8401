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
      description: "`stopped`: too much of a stage failed, or its instance did, as `why` says · `aborted`: an operator has halted it.",
    }),
    why: z
      .string()
      .nullable()
      .meta({ description: "Why it stopped, or who halted it, and what to do; null where there is nothing to say." }),
    actor: z.string(),
    reason: z.string(),
    filter: z.record(z.string(), z.unknown()).nullable().meta({ description: "Null where ids were given." }),
    ramp: z.array(z.int()),
    rate_per_second: z.number(),
    stop_at_error_rate: z.number(),
    settle_within_seconds: z.number(),
    undo: z.boolean().nullable().meta({
      description:
        "False: what was done is left standing; true: it is taken back, where it can be. Null for a verb that takes nothing back.",
    }),
    matched: z.int().meta({ description: "What it is about, frozen at `created_at`: always done + skipped + failed + left." }),
    done: z.int(),
    skipped: z.int().meta({
      description: "Left out: there was nothing to do any more. The `why` of each says who acted on it before, if somebody did.",
    }),
    failed: z.int().meta({ description: "Refused, failed again, or in doubt (`in_doubt`) until a person answers." }),
    left: z.int(),
    instance_id: z.string().meta({ description: "The instance that works on it." }),
    created_at: timestamp,
    updated_at: timestamp,
    ended_at: timestamp.nullable(),
  })
  .meta({ id: "BulkAction" });

const ItemSchema = z
  .object({
    n: z.int().meta({ description: "Its place in the order, from 0." }),
    target: z.string().meta({ description: "The instance, dead letter, effect (by its key) or delivery." }),
    instance_id: z.string().nullable().meta({ description: "Of an effect, the instance that it belongs to; null for other things." }),
    about: z.string().nullable().meta({
      description:
        "The workflow and subject of an instance, for an effect with its step in front, the type and key of a dead letter; null for what is none of these, or not kept any more.",
    }),
    result: z.enum(BULK_RESULTS),
    code: z.string().nullable(),
    why: z.string().nullable().meta({ description: "Why it was left out or has failed, and what to do." }),
    action_id: z.string().meta({ description: "The action on it, as the audit has it." }),
    at: timestamp,
  })
  .meta({ id: "BulkItem" });

const PlanSchema = z
  .object({
    matched: z.int(),
    sample: z.array(
      z.object({
        id: z.string(),
        refused: z.string().nullable().meta({ description: "Why it would be refused now; null when it would be done." }),
      }),
    ),
    stages: z.array(z.int()).meta({ description: "How many each stage would have." }),
    parts: z
      .array(z.object({ what: z.string(), count: z.int(), follows: z.string() }))
      .meta({ description: "Of doubts: how many each step has, and what follows for these. Empty for other verbs." }),
    follows: z.string().nullable().meta({ description: "What to know before it begins, such as that it is final; null for nothing." }),
  })
  .meta({ id: "BulkPlan" });

const params = z.object({ id: z.string() });
const READ_REFUSALS = ["unauthorized", "forbidden", "bulk_action_not_found", "invalid_payload"] as const;

const start = createRoute({
  method: "post",
  path: "/v1/bulk-actions",
  operationId: "startBulkAction",
  summary: "Act on many things at once",
  description: [
    "What matches at this moment is written down, and acted upon in stages, so many a second: `retry`, `cancel`, `pause`, `resume` and `close` of instances; `replay` and `skip` of dead letters; `reject` and `retry_anyway` of effects in doubt; and what this deployment adds.",
    "Between two stages it waits until what was begun has ended. It stops itself where too much of a stage fails. A dry run only says what matches.",
  ].join("\n\n"),
  ...needs("operate"),
  request: {
    headers: z.object(keyHeader("The same request under the same key is one bulk action.")),
    query: z.strictObject({}),
    body: jsonBody(bulkSchema),
  },
  responses: {
    200: answers("A dry run: what it would be about", PlanSchema),
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
  summary: "List bulk actions, newest first",
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
  summary: "Show a bulk action with its progress",
  ...needs("read"),
  request: { params },
  responses: { 200: answers("The bulk action", BulkActionSchema), ...problems(...READ_REFUSALS) },
});

/** A page begins behind a number: which of the things it was. */
const places = nameQuery(50, 200);
const placeCursor = places.cursor.refine((place) => place === undefined || /^\d{1,9}$/.test(place), NO_CURSOR);

const items = createRoute({
  method: "get",
  path: "/v1/bulk-actions/{id}/items",
  operationId: "listBulkItems",
  summary: "List what came of each thing, in the order in which they were acted upon",
  ...needs("read"),
  request: { params, query: z.strictObject({ result: z.enum(BULK_RESULTS).optional(), ...places, cursor: placeCursor }) },
  responses: { 200: answers("A page of things", pageOf(ItemSchema)), ...problems(...READ_REFUSALS) },
});

const steering = (verb: "abort" | "resume", summary: string, description: string) =>
  createRoute({
    method: "post",
    path: `/v1/bulk-actions/{id}/${verb}`,
    operationId: `${verb}BulkAction`,
    summary,
    description,
    ...needs("operate"),
    request: { params, body: jsonBody(reasoned) },
    responses: {
      202: answers("So it does", BulkActionSchema.extend({ action_id: z.string() }).meta({ id: "SteeredBulkAction" })),
      ...problems(...BODY_REFUSALS, "bulk_action_not_found", "invalid_transition", "bulk_actions_running", "config_invalid"),
    },
  });

const abortRoute = steering("abort", "Halt a bulk action", "Nothing more is begun within a second. What is done stays done.");
const resumeRoute = steering(
  "resume",
  "Have a bulk action go on",
  "One that was halted, or that has stopped: with what is left, at the stage where it was. What has failed stays so: start another one over that.",
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
      // What is withheld of their words was withheld as they were written.
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
