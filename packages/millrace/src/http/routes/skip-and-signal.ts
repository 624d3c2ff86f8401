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
  step: z.string().min(1).max(256).meta({ description: "The failed step, by its name in the code." }),
  item: z.string().max(256).default("").meta({ description: "Distinguishes parallel calls of one step; empty for a step that runs once." }),
  output: z.unknown().optional().meta({
    description:
      "The output of the step for the following code; null if it has none. Required, except for an effect that an undo could not undo or check.",
  }),
});

const skipRoute = createRoute({
  method: "post",
  path: "/v1/instances/{id}/skip",
  operationId: "skipStep",
  command: "instances skip",
  summary: "Skip the failed step of an instance",
  description:
    "Records the given output with its rows and messages (none for a commit), and the run continues after the step. An output that does not match the schema of the step ends the run again with the reason. An undo does not revert a skipped step. After a failed undo, the undo continues after the skipped step. For `undo …` you confirm that the effect is undone, which is recorded with its rows and messages. If the undo cannot determine the outcome of an effect, you confirm that the undo ignores the effect. Neither needs an output.",
  ...needs("operate"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject({}), body: jsonBody(skipSchema) },
  responses: {
    200: answers("A dry run: the consequence of the skip", ActionPlanSchema),
    202: answers("The instance continues after the step", PromisedSchema),
    ...problems(...BODY_REFUSALS, "output_too_large", "instance_not_found", "invalid_transition"),
  },
});

const signalSchema = actionSchema.extend({
  payload: z.unknown().meta({ description: "The payload, by the schema of the event." }),
});

const SignalledSchema = z
  .object({
    action_id: z.string(),
    event_id: z.string().meta({ description: "The id of the event." }),
    replayed: z.boolean().meta({ description: "True for a repeat of an accepted signal, which has no effect." }),
    step: z.string().nullable().meta({
      description: "The step that received it; null if no step waits for it yet. The event is kept until then.",
    }),
  })
  .meta({ id: "Signalled" });

const signalRoute = createRoute({
  method: "post",
  path: "/v1/instances/{id}/signals/{type}",
  operationId: "signalInstance",
  command: "instances signal",
  summary: "Send an event to one instance",
  description: [
    "The most recent wait of the instance receives the event. Without such a wait, the event is kept until one starts. No other instance receives it; use POST /v1/events for events to all consumers.",
    "It needs the scope `operate`, also for an event type that is closed to the outside, and is recorded in the audit. `Idempotency-Key` identifies the signal among those of its type to this instance. A repeat of the key is the same signal, `replayed`.",
  ].join("\n\n"),
  ...needs("operate"),
  request: {
    params: z.object({ id: z.string(), type: z.string() }),
    query: z.strictObject({}),
    headers: z.object(keyHeader("Identifies the signal. Required except for a dry run.")),
    body: jsonBody(signalSchema),
  },
  responses: {
    200: answers("A dry run: the step that would receive it", ActionPlanSchema),
    202: { ...answers("Taken", SignalledSchema), headers: replayedHeaderSchema },
    ...problems(...BODY_REFUSALS, "instance_not_found", "unknown_message_type", "idempotency_key_reused", "invalid_transition"),
  },
});

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
        throw invalidRequest([
          { path: "Idempotency-Key", message: "is missing: send a key for the signal, so that a repeat is recognized" },
        ]);
      const request = { type, payload, idempotencyKey: key, reason };
      const { actionId, eventId, replayed, step } = await signalInstance(context.env, catalog, context.var.caller, id, request);
      return context.json({ action_id: actionId, event_id: eventId, replayed, step }, 202, replayedHeader({ replayed }));
    });
}
