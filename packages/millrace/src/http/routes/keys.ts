import * as z from "zod";
import { unknownName } from "../../contract/known-fields.ts";
import { CapturedUnderKey, describeKey, KeyHolder, signedFingerprint } from "../../inspect/keys.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { namesOf } from "../../topology/names.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { invalidRequest } from "../invalid-request.ts";
import { reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const KeySchema = z
  .object({
    key: z.string(),
    holders: z.array(KeyHolder),
    captured: z.array(CapturedUnderKey).meta({
      description: "The newest 20 dead letters with this key. A refused HTTP request leaves no row.",
    }),
    captured_truncated: z.boolean(),
  })
  .meta({ id: "Key" });

const show = createRoute({
  ...at("get", "/v1/keys/{key}", "getKey", "keys show"),
  summary: "Get the holders of an idempotency key",
  description:
    "Each workflow and each event type has its own key space; `workflow` selects one. The key of a pruned instance remains in use until its tombstone is removed.",
  ...needs("read"),
  request: {
    params: z.object({ key: z.string() }),
    query: z.strictObject({ workflow: z.string().optional().meta({ description: "The name of a deployed workflow or event type." }) }),
  },
  responses: reads("The key", KeySchema, "key_not_found"),
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
    const sign = (fingerprint: string) => signedFingerprint(context.env, context.var.caller.tenantId, fingerprint);
    const view = {
      key,
      holders: holders.map((one) => ({ ...one, fingerprint: sign(one.fingerprint) })),
      captured: captured.map((one) => ({ ...one, fingerprint: one.fingerprint && sign(one.fingerprint) })),
      captured_truncated: truncated,
    };
    return context.json(view, 200);
  });
}
