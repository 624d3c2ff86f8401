import * as z from "zod";
import { INTAKE_LIMITS } from "../../contract/limits.ts";
import { planSignal, signalInstance } from "../../operate/instances/signal.ts";
import { planSkip, skipStep } from "../../operate/instances/skip-step.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { BODY_REFUSALS } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { idempotencyKey, keyHeader, replayedHeader, replayedHeaderSchema } from "../idempotency-key.ts";
import { invalidRequest } from "../invalid-request.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { ActionPlanSchema, actionSchema, PromisedSchema } from "./instance-actions.ts";

const skipSchema = actionSchema.extend({
  step: z.string().min(1).max(256).meta({ description: "The step that failed, by its name in the code." }),
  item: z.string().max(256).default("").meta({ description: "Tells parallel calls of one step apart; empty for a step that runs once." }),
  output: z.unknown().optional().meta({
    description:
      "What the step answers to the code behind it. Null where it answers nothing. Needed, but for an effect that an undo could not take back, or find out about.",
  }),
});

const skipRoute = createRoute({
  method: "post",
  path: "/v1/instances/{id}/skip",
  operationId: "skipStep",
  summary: "Skip the step that an instance failed of",
  description:
    "The output that is given is recorded as a person's word, with the rows and messages that belong to it (of a commit, none), and the run goes on behind the step. One that the step's own schema refuses ends the run again, and says why. No undo takes a skipped step back. Where an undo has failed, that goes on behind its step: of `undo …` you say that the effect is taken back, which is recorded with the rows and messages that belong to that; of an effect of which the undo cannot find out whether it happened, that it is to leave it alone. Neither needs an output.",
  ...needs("operate"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject({}), body: jsonBody(skipSchema) },
  responses: {
    200: answers("A dry run: what follows where the step is skipped", ActionPlanSchema),
    202: answers("It goes on behind the step", PromisedSchema),
    ...problems(...BODY_REFUSALS, "output_too_large", "instance_not_found", "invalid_transition"),
  },
});

const signalSchema = actionSchema.extend({
  payload: z.unknown().meta({ description: "What the event's own schema asks for." }),
});

const SignalledSchema = z
  .object({
    action_id: z.string(),
    event_id: z.string().meta({ description: "The event's own name." }),
    replayed: z.boolean().meta({ description: "True when the same signal had been taken before: nothing new follows." }),
    step: z.string().nullable().meta({
      description: "The step that took it; null while the instance does not wait for such an event: it is kept until it does.",
    }),
  })
  .meta({ id: "Signalled" });

const signalRoute = createRoute({
  method: "post",
  path: "/v1/instances/{id}/signals/{type}",
  operationId: "signalInstance",
  summary: "Send an event to one instance",
  description: [
    "The wait that the instance has asked for last takes it; where it waits for no such event yet, the event is kept until it does. No other instance takes it: what happened for all is stated with POST /v1/events.",
    "An operator stands in for whoever sends such events: it needs the scope `operate`, also for a type that is closed to the outside world, and is in the audit. `Idempotency-Key` names the signal among those of its type to this instance: the same key again is the same signal, `replayed`.",
  ].join("\n\n"),
  ...needs("operate"),
  request: {
    params: z.object({ id: z.string(), type: z.string() }),
    query: z.strictObject({}),
    headers: z.object(keyHeader("Names the signal: needed unless it is a dry run.")),
    body: jsonBody(signalSchema),
  },
  responses: {
    200: answers("A dry run: which step would take it", ActionPlanSchema),
    202: { ...answers("Taken", SignalledSchema), headers: replayedHeaderSchema },
    ...problems(...BODY_REFUSALS, "instance_not_found", "unknown_message_type", "idempotency_key_reused", "invalid_transition"),
  },
});

/** What an operator puts in the place of what did not come: a step's output, or an event. */
export function skipAndSignal(catalog: Catalog) {
  return new Routes<HttpEnv>()
    .openapi(skipRoute, async (context) => {
      const { id } = context.req.valid("param");
      const { dry_run, reason, step, item, output } = await readBody(context.req, skipSchema, { maxBytes: INTAKE_LIMITS.maxBytes });
      if (dry_run) return context.json(await planSkip(context.env, context.var.caller, id, { step, item, output }), 200);
      const { actionId } = await skipStep(context.env, context.var.caller, id, { step, item, output, reason });
      return context.json({ action_id: actionId }, 202);
    })
    .openapi(signalRoute, async (context) => {
      const { id, type } = context.req.valid("param");
      const { dry_run, reason, payload } = await readBody(context.req, signalSchema, { maxBytes: INTAKE_LIMITS.maxBytes });
      if (dry_run) return context.json(await planSignal(context.env, catalog, context.var.caller, id, { type, payload }), 200);
      const key = idempotencyKey(context.req.header("idempotency-key"));
      if (key === undefined)
        throw invalidRequest([{ path: "Idempotency-Key", message: "is missing: name the signal, so that a repeat is known" }]);
      const request = { type, payload, idempotencyKey: key, reason };
      const { actionId, eventId, replayed, step } = await signalInstance(context.env, catalog, context.var.caller, id, request);
      return context.json({ action_id: actionId, event_id: eventId, replayed, step }, 202, replayedHeader({ replayed }));
    });
}
