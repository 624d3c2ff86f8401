import type { Context } from "hono";
import * as z from "zod";
import { INTAKE_LIMITS } from "../../contract/limits.ts";
import { hiddenIn } from "../../contract/row.ts";
import { Doubt, DoubtFilter, doubtBehind, EffectRow, listEffects, listEffectsOf } from "../../inspect/effects.ts";
import { getInstance } from "../../inspect/instances.ts";
import { resolveDoubt } from "../../operate/instances/resolve.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery, timeCursor } from "../paging.ts";
import { problems } from "../problem.ts";
import { redactionFor, revealQuery } from "../redaction.ts";
import { answers, reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const EffectsSchema = z.object({ items: z.array(EffectRow) });
const ResolvedSchema = z.object({ action_id: z.string(), instance_id: z.string() }).meta({ id: "Resolved" });
const confirmSchema = reasoned.extend({
  output: z
    .unknown()
    .refine((output) => output !== undefined, "is missing: send the output of the effect, which the step returns; null if it has none")
    .meta({ description: "The output of the effect, which the step returns. Null if it has none." }),
});

const listOfInstance = createRoute({
  ...at("get", "/v1/instances/{id}/effects", "listEffects", "instances effects"),
  summary: "List the effects of an instance",
  description: "Returns every recorded effect of the instance with its class, state, input and output.",
  ...needs("read"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject(revealQuery) },
  responses: reads("Effects in the order of their steps", EffectsSchema, "instance_not_found"),
});

const listInDoubt = createRoute({
  ...at("get", "/v1/effects", "listEffectsInDoubt", "effects list"),
  summary: "List effects with an unknown outcome, oldest first",
  description: "Returns effects that may or may not have happened. Decide each with `confirm`, `reject` or `retry`.",
  ...needs("read"),
  request: {
    query: DoubtFilter.extend({
      cursor: timeCursor((cursor) => doubtBehind(cursor)?.at),
      limit: pageQuery.limit,
      ...revealQuery,
    }).strict(),
  },
  responses: reads("A page of effects with an unknown outcome", pageOf(Doubt)),
});

const confirm = resolution(
  "confirm",
  "Confirm that an effect happened",
  "Records the output of the effect. The instance continues with it.",
  confirmSchema,
);
const reject = resolution(
  "reject",
  "Reject an effect: it did not happen",
  "Records that the effect did not happen. The step runs again.",
  reasoned,
);
const retry = resolution(
  "retry",
  "Retry an effect that may happen twice",
  "Runs the step again although its outcome is unknown. The effect may happen twice.",
  reasoned,
);

export function effects(catalog: Catalog) {
  const hiding = async (context: Context<HttpEnv>, found: readonly EffectRow[]) => {
    const redaction = await redactionFor(context, catalog);
    const ids = found.map((one) => one.instance_id);
    return redaction.ofInstances(context.env, context.var.caller, ids);
  };

  return new Routes<HttpEnv>()
    .openapi(listOfInstance, async (context) => {
      const { id } = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
      const found = await listEffectsOf(context.env, context.var.caller, id);
      const hide = await hiding(context, found);
      return context.json({ items: found.map((effect) => hiddenIn(EffectRow, effect, hide(id))) }, 200);
    })
    .openapi(listInDoubt, async (context) => {
      const { reveal: _, ...filter } = context.req.valid("query");
      const found = await listEffects(context.env, context.var.caller, filter);
      const known = catalog.workflows.map(({ name }) => name);
      refuseUnknownNames(found, { workflow: { name: filter.workflow, known } }, filter.cursor);
      const hide = await hiding(context, found.items);
      return context.json(
        page(found, (one) => hiddenIn(Doubt, one, hide(one.instance_id))),
        200,
      );
    })
    .openapi(confirm, async (context) => {
      const { reason, output } = await readBody(context.req, confirmSchema, { maxBytes: INTAKE_LIMITS.maxBytes });
      const { key } = context.req.valid("param");
      return context.json(await resolveDoubt(context.env, context.var.caller, key, { verb: "confirm", output }, reason), 202);
    })
    .openapi(reject, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      const { key } = context.req.valid("param");
      return context.json(await resolveDoubt(context.env, context.var.caller, key, { verb: "reject" }, reason), 202);
    })
    .openapi(retry, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      const { key } = context.req.valid("param");
      return context.json(await resolveDoubt(context.env, context.var.caller, key, { verb: "retry_anyway" }, reason), 202);
    });
}

function resolution<Verb extends string>(verb: Verb, summary: string, description: string, body: z.ZodType) {
  return createRoute({
    ...at("post", `/v1/effects/{key}/${verb}`, `${verb}Effect`, `effects ${verb}`),
    summary,
    description,
    ...needs("operate"),
    request: { params: z.object({ key: z.string() }), body: jsonBody(body) },
    responses: {
      202: answers("The outcome is decided, and the instance continues", ResolvedSchema),
      ...problems(...BODY_REFUSALS, "effect_not_found", "invalid_transition"),
    },
  });
}
