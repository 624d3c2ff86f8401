import type { Context } from "hono";
import * as z from "zod";
import type { Hide } from "../../contract/hide.ts";
import { KNOWN_NAMES } from "../../contract/known-fields.ts";
import { INTAKE_LIMITS } from "../../contract/limits.ts";
import { type Doubt, doubtBehind, type Effect, effectsOf, listEffects } from "../../inspect/effects.ts";
import { getInstance } from "../../inspect/instances.ts";
import { type Resolution, resolveDoubt } from "../../operate/instances/resolve.ts";
import { RECORDED_CLASSES } from "../../store/inbox/classes.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { FailureSchema, failureView } from "../failure.ts";
import { refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery, timeCursor } from "../paging.ts";
import { problems } from "../problem.ts";
import { redactionFor, revealQuery } from "../redaction.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, timestamp } from "../time.ts";

export const AnsweredSchema = z
  .object({
    output: z.unknown().meta({ description: "Null without an output, and for an output stored elsewhere (`output_ref`)." }),
    output_ref: z.string().nullable().meta({ description: "The location of a large output." }),
  })
  .meta({
    id: "Answered",
    description:
      "The output of an effect that happened, although its rows were refused (see `error`). Send this `output` with `confirm` after deploying code with valid rows. Null otherwise.",
  });

const EffectSchema = z
  .object({
    key: z.string().meta({ description: "The key of the effect in `POST /v1/effects/{key}/…`." }),
    instance_id: z.string(),
    step: z.string(),
    item: z.string().meta({ description: "Distinguishes parallel calls of one step; empty for a step that runs once." }),
    generation: z.int().meta({ description: "Increases only when an operator requests the effect again." }),
    class: z.enum(RECORDED_CLASSES),
    state: z.enum(["claimed", "failed", "in_doubt", "confirmed", "done", "superseded"]),
    skipped: z.boolean().meta({ description: "True for a step that an operator skipped: it did not run, and its output was given." }),
    epoch: z.int(),
    input: z.unknown().meta({
      description: "The input; recorded only for `lookup` and `once` effects. If longer than 4 KB, the beginning of its JSON as a string.",
    }),
    output: z.unknown().meta({ description: "The recorded output; null without one, and for an output stored elsewhere (`output_ref`)." }),
    output_ref: z.string().nullable().meta({ description: "The location of a large output." }),
    error: FailureSchema.nullable(),
    answered: AnsweredSchema.nullable(),
    updated_at: timestamp,
  })
  .meta({ id: "Effect" });

export const FollowsSchema = z
  .object({
    confirm: z.string(),
    reject: z.string().nullable().meta({ description: "Null if refused: the effect is known to have happened." }),
    retry: z.string().nullable().meta({ description: "Null if refused: the effect would not run again." }),
  })
  .meta({ id: "Follows", description: "The consequence of each decision in the current state of the instance." });

const DoubtSchema = EffectSchema.extend({ workflow: z.string(), subject: z.string(), follows: FollowsSchema }).meta({ id: "Doubt" });

const EffectsSchema = z.object({ items: z.array(EffectSchema) });
const ResolvedSchema = z.object({ action_id: z.string(), instance_id: z.string() }).meta({ id: "Resolved" });
const confirmSchema = reasoned.extend({
  output: z
    .unknown()
    .refine((output) => output !== undefined, "is missing: send the output of the effect, which the step returns; null if it has none")
    .meta({ description: "The output of the effect, which the step returns. Null if it has none." }),
});

const listOfInstance = createRoute({
  method: "get",
  path: "/v1/instances/{id}/effects",
  operationId: "listEffects",
  command: "instances effects",
  summary: "List the effects of an instance",
  description: "Returns every recorded effect of the instance with its class, state, input and output.",
  ...needs("read"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject(revealQuery) },
  responses: {
    200: answers("Effects in the order of their steps", EffectsSchema),
    ...problems("unauthorized", "forbidden", "instance_not_found", "invalid_payload"),
  },
});

const listInDoubt = createRoute({
  method: "get",
  path: "/v1/effects",
  operationId: "listEffectsInDoubt",
  command: "effects list",
  summary: "List effects with an unknown outcome, oldest first",
  description: "Returns effects that may or may not have happened. Decide each with `confirm`, `reject` or `retry`.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      state: z.literal("in_doubt").default("in_doubt"),
      workflow: z.string().optional().meta({ description: KNOWN_NAMES }),
      step: z.string().optional().meta({ description: "The name of a step in the code, for all items and generations." }),
      cursor: timeCursor((cursor) => doubtBehind(cursor)?.at),
      limit: pageQuery.limit,
      ...revealQuery,
    }),
  },
  responses: {
    200: answers("A page of effects with an unknown outcome", pageOf(DoubtSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
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
  const hiding = async (context: Context<HttpEnv>, found: readonly Effect[]) => {
    const redaction = await redactionFor(context, catalog);
    const ids = found.map(({ instanceId }) => instanceId);
    return redaction.ofInstances(context.env, context.var.caller, ids);
  };

  return new Routes<HttpEnv>()
    .openapi(listOfInstance, async (context) => {
      const { id } = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
      const found = await effectsOf(context.env, context.var.caller, id);
      const hide = await hiding(context, found);
      return context.json({ items: found.map((effect) => effectView(effect, hide(id))) }, 200);
    })
    .openapi(listInDoubt, async (context) => {
      const { reveal: _, ...filter } = context.req.valid("query");
      const found = await listEffects(context.env, context.var.caller, filter);
      const known = catalog.workflows.map(({ name }) => name);
      refuseUnknownNames(found, { workflow: { name: filter.workflow, known } }, filter.cursor);
      const hide = await hiding(context, found.items);
      return context.json(
        page(found, (one) => doubtView(one, hide(one.instanceId))),
        200,
      );
    })
    .openapi(confirm, async (context) => {
      const { reason, output } = await readBody(context.req, confirmSchema, { maxBytes: INTAKE_LIMITS.maxBytes });
      return context.json(await resolve(context, context.req.valid("param").key, { verb: "confirm", output }, reason), 202);
    })
    .openapi(reject, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      return context.json(await resolve(context, context.req.valid("param").key, { verb: "reject" }, reason), 202);
    })
    .openapi(retry, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      return context.json(await resolve(context, context.req.valid("param").key, { verb: "retry_anyway" }, reason), 202);
    });
}

function resolution<Verb extends string>(verb: Verb, summary: string, description: string, body: z.ZodType) {
  return createRoute({
    method: "post",
    path: `/v1/effects/{key}/${verb}`,
    operationId: `${verb}Effect`,
    command: `effects ${verb}`,
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

async function resolve(
  context: Context<HttpEnv>,
  key: string,
  resolution: Resolution,
  reason: string,
): Promise<z.infer<typeof ResolvedSchema>> {
  const { actionId, instanceId } = await resolveDoubt(context.env, context.var.caller, key, resolution, reason);
  return { action_id: actionId, instance_id: instanceId };
}

export function answeredView({ answered }: Effect, hide: Hide): z.infer<typeof AnsweredSchema> | null {
  if (answered === null) return null;
  return { output: hide(answered.output === null ? null : JSON.parse(answered.output)), output_ref: answered.outputRef };
}

function effectView(effect: Effect, hide: Hide): z.infer<typeof EffectSchema> {
  return {
    key: effect.key,
    instance_id: effect.instanceId,
    step: effect.step,
    item: effect.item,
    generation: effect.generation,
    class: effect.class,
    state: effect.state,
    skipped: effect.skipped,
    epoch: effect.epoch,
    input: hide(sent(effect.input)),
    output: hide(effect.output === null ? null : JSON.parse(effect.output)),
    output_ref: effect.outputRef,
    error: hide(failureView(effect.error)),
    answered: answeredView(effect, hide),
    updated_at: iso(effect.updatedAt),
  };
}

function doubtView(doubt: Doubt, hide: Hide): z.infer<typeof DoubtSchema> {
  const { workflow, subject, follows } = doubt;
  return { ...effectView(doubt, hide), workflow, subject, follows };
}

/** The stored input: parsed, or the text if it was truncated. */
function sent(input: string | null): unknown {
  try {
    return input === null ? null : JSON.parse(input);
  } catch {
    return input;
  }
}
