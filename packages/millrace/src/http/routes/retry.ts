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
  from: z.string().min(1).max(256).optional().meta({ description: "The step to start from; default the one that failed." }),
  anyway: z.boolean().default(false).meta({
    description: "True tries the step of `from` anew also where the code caught its failure and did something else: that stays done.",
  }),
  dry_run: z.boolean().default(false).meta({ description: "True only says what would happen." }),
});

const PlanSchema = z
  .object({
    from: z.string().nullable(),
    refused: z.string().nullable().meta({ description: "Why it would be refused now; null when it would be done." }),
    follows: z.string().meta({ description: "What would follow, in a sentence." }),
    note: z.string().nullable().meta({
      description: "Which output it would keep that a person has confirmed, and what to do where that is wrong; null where nobody has.",
    }),
    effects: z.array(
      z.object({
        step: z.string(),
        item: z.string(),
        verdict: z.enum(RETRY_VERDICTS).meta({
          description:
            "As of any dry run (`ActionPlan`). `undone`, `stays`, `asked`, `repeated`, `nothing` and `unknown` are said where an undo goes on that failed.",
        }),
      }),
    ),
  })
  .meta({ id: "RetryPlan" });

const BegunSchema = z.object({
  action_id: z.string(),
  from: z.string().nullable().meta({ description: "The step that it starts from; null for its beginning." }),
  follows: z.string().meta({
    description: "The consequences, in a few sentences. If the platform no longer remembers the run, they name the repeated steps.",
  }),
});

const retryRoute = createRoute({
  method: "post",
  path: "/v1/instances/{id}/retry",
  operationId: "retryInstance",
  summary: "Retry an errored or terminated instance",
  description:
    "Recorded effects are kept, whatever step it starts from. A dry run says which would run and which are in doubt. One whose undo failed goes on with the undo: its dry run says of each effect that is not taken back yet what `POST /v1/instances/{id}/undo` would.",
  ...needs("operate"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject({}), body: jsonBody(retrySchema) },
  responses: {
    200: answers("A dry run: what a retry would do", PlanSchema),
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
