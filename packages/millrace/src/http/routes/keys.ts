import * as z from "zod";
import { unknownName } from "../../contract/known-fields.ts";
import { type CapturedUnderKey, describeKey, type KeyHolder } from "../../inspect/keys.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { namesOf } from "../../topology/names.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { fingerprintSchema, fingerprintView } from "../fingerprint.ts";
import { invalidRequest } from "../invalid-request.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const HolderSchema = z
  .object({
    kind: z
      .enum(["instance", "tombstone", "event"])
      .meta({ description: "`tombstone`: the remaining record of the key of a pruned instance." }),
    id: z.string().meta({ description: "The id of the instance (also of a pruned one) or of the event." }),
    name: z.string().meta({ description: "The workflow or the event type: each has its own key space." }),
    status: z.enum([...INSTANCE_STATUSES, "pruned", "stated"]),
    correlation_id: z.string().nullable(),
    fingerprint: fingerprintSchema,
    deliveries: z.int().nullable().meta({ description: "The number of deliveries of its message; null if not recorded." }),
    since: timestamp.meta({ description: "When the key was taken; for a tombstone, the day of pruning." }),
    row_until: timestamp.nullable().meta({ description: "The earliest removal of its row; null while it is running." }),
    key_until: timestamp.nullable().meta({ description: "The earliest time at which the key is free again; null while it is running." }),
  })
  .meta({ id: "KeyHolder" });

const CapturedSchema = z
  .object({
    dead_letter_id: z.string(),
    queue: z.string(),
    message_type: z.string().nullable(),
    reason: z.string().meta({ description: "`idempotency_key_reused`: the key belonged to another payload." }),
    state: z.enum(["open", "replayed", "skipped"]),
    fingerprint: fingerprintSchema.nullable().meta({ description: "The fingerprint of its payload; null if it is not readable." }),
    attempts: z.int(),
    first_at: timestamp,
    captured_at: timestamp,
  })
  .meta({ id: "CapturedUnderKey" });

const KeySchema = z
  .object({
    key: z.string(),
    holders: z.array(HolderSchema),
    captured: z.array(CapturedSchema).meta({
      description: "The newest 20 dead letters with this key. A refused HTTP request leaves no row.",
    }),
    captured_truncated: z.boolean(),
  })
  .meta({ id: "Key" });

const show = createRoute({
  method: "get",
  path: "/v1/keys/{key}",
  operationId: "getKey",
  command: "keys show",
  summary: "Get the holders of an idempotency key",
  description:
    "Each workflow and each event type has its own key space; `workflow` selects one. The key of a pruned instance remains in use until its tombstone is removed.",
  ...needs("read"),
  request: {
    params: z.object({ key: z.string() }),
    query: z.strictObject({ workflow: z.string().optional().meta({ description: "The name of a deployed workflow or event type." }) }),
  },
  responses: { 200: answers("The key", KeySchema), ...problems("unauthorized", "forbidden", "key_not_found", "invalid_payload") },
});

export function keys(catalog: Catalog) {
  const known = namesOf(catalog);
  return new Routes<HttpEnv>().openapi(show, async (context) => {
    const { key } = context.req.valid("param");
    const { workflow } = context.req.valid("query");
    if (workflow !== undefined && !known.workflows.includes(workflow)) {
      throw invalidRequest([unknownName("workflow", workflow, known.workflows)]);
    }
    const names = workflow === undefined ? known : { workflows: [workflow], events: [] };
    const { holders, captured, truncated } = await describeKey(context.env, context.var.caller, key, names);
    const sign = (fingerprint: string) => fingerprintView(context.env, context.var.caller.tenantId, fingerprint);
    const view = {
      key,
      holders: holders.map((one) => ({ ...holderView(one), fingerprint: sign(one.fingerprint) })),
      captured: captured.map((one) => ({ ...capturedView(one), fingerprint: one.fingerprint && sign(one.fingerprint) })),
      captured_truncated: truncated,
    };
    return context.json(view, 200);
  });
}

function holderView({ correlationId, since, rowUntil, keyUntil, ...holder }: KeyHolder) {
  return {
    ...holder,
    correlation_id: correlationId,
    since: iso(since),
    row_until: isoOrNull(rowUntil),
    key_until: isoOrNull(keyUntil),
  };
}

function capturedView(captured: CapturedUnderKey) {
  const { queue, reason, state, attempts } = captured;
  return {
    dead_letter_id: captured.deadLetterId,
    queue,
    message_type: captured.messageType,
    reason,
    state,
    attempts,
    first_at: iso(captured.firstAt),
    captured_at: iso(captured.capturedAt),
  };
}
