import * as z from "zod";
import { planRetry, RETRY_VERDICTS, retryInstance } from "../../operate/instances/retry.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";

const retrySchema = reasoned.extend({
  from: z.string().min(1).max(256).optional().meta({ description: "The step to start at. Default: the failed one." }),
  anyway: z.boolean().default(false).meta({
    description:
      "True retries the step of `from` even if the code caught its failure and continued. The effects of that continuation remain.",
  }),
  dry_run: z.boolean().default(false).meta({ description: "True returns the consequences and changes nothing." }),
});

const PlanSchema = z
  .object({
    from: z.string().nullable(),
    refused: z.string().nullable().meta({ description: "Why it would be refused now; null if it would be accepted." }),
    follows: z.string().meta({ description: "The consequence, in a sentence." }),
    note: z.string().nullable().meta({
      description: "A note on the confirmed output that the retry keeps, with the correction if it is wrong; null without one.",
    }),
    effects: z.array(
      z.object({
        step: z.string(),
        item: z.string(),
        verdict: z.enum(RETRY_VERDICTS).meta({
          description:
            "The verdicts of any dry run (`ActionPlan`). `undone`, `stays`, `asked`, `repeated`, `nothing` and `unknown` occur if the retry continues a failed undo.",
        }),
      }),
    ),
  })
  .meta({ id: "RetryPlan" });

const BegunSchema = z.object({
  action_id: z.string(),
  from: z.string().nullable().meta({ description: "The step it starts at; null for the beginning." }),
  follows: z.string().meta({
    description: "The consequences, in a few sentences. If the platform has removed the run, they name the repeated steps.",
  }),
});

const retryRoute = createRoute({
  method: "post",
  path: "/v1/instances/{id}/retry",
  operationId: "retryInstance",
  command: "instances retry",
  summary: "Retry an errored or terminated instance",
  description:
    "Recorded effects are kept for every start step. A dry run lists the effects that would run and the effects in doubt. After a failed undo, the retry continues the undo; its dry run lists the same verdicts as `POST /v1/instances/{id}/undo`.",
  ...needs("operate"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject({}), body: jsonBody(retrySchema) },
  responses: {
    200: answers("A dry run: the consequences of a retry", PlanSchema),
    202: answers("It runs again", BegunSchema),
    ...problems(...BODY_REFUSALS, "instance_not_found", "invalid_transition"),
  },
});

export function retry() {
  return new Routes<HttpEnv>().openapi(retryRoute, async (context) => {
    const { id } = context.req.valid("param");
    const { from, anyway, reason, dry_run } = await readBody(context.req, retrySchema);
    if (dry_run) return context.json(await planRetry(context.env, context.var.caller, id, { from, anyway }), 200);
    const done = await retryInstance(context.env, context.var.caller, id, { from, anyway, reason });
    return context.json({ action_id: done.actionId, from: done.from, follows: done.follows }, 202);
  });
}
