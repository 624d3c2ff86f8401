import * as z from "zod";
import type { EngineEnv } from "../../contract/bindings.ts";
import { cancelInstance, planCancel } from "../../operate/instances/cancel.ts";
import { closeInstance, planClose } from "../../operate/instances/close.ts";
import { pauseInstance, planPause, planResume, resumeInstance } from "../../operate/instances/pause.ts";
import { type ActionPlan, PLAN_VERDICTS } from "../../operate/instances/plan.ts";
import { planRestart, restartInstance } from "../../operate/instances/restart.ts";
import type { Operator } from "../../store/actions.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";

export const actionSchema = reasoned.extend({
  dry_run: z
    .boolean()
    .default(false)
    .meta({ description: "True returns the consequences, as far as they are recorded, and changes nothing." }),
});

export const ActionPlanSchema = z
  .object({
    refused: z.string().nullable().meta({ description: "Why it would be refused now; null if it would be accepted." }),
    from: z.string().nullable().meta({ description: "The step it would start at; null for none and for the beginning." }),
    follows: z.string().meta({ description: "The consequence, in a sentence." }),
    effects: z.array(
      z.object({
        step: z.string(),
        item: z.string(),
        verdict: z.enum(PLAN_VERDICTS).meta({
          description:
            "`kept`: it happened and is kept. `runs`: it runs, or runs again. `caught`: it failed and the code continued; the same error is thrown again. `skipped`: an operator skipped it. `held`: its next attempt starts when the instance is resumed. `under_way`: an attempt is running or its answer was lost; its outcome is recorded first. `undone`: it is undone, or already was. `stays`: it remains, because it has no undo handler. `asked`: the upstream is asked first whether it happened. `repeated`: it may have happened; it runs again under its key and is then undone. `nothing`: it did not happen. `in_doubt`: an operator must decide whether it happened. `unknown`: it failed without a recorded outcome and may have happened. `needs_output`: it happened, and an operator must give its output.",
        }),
      }),
    ),
  })
  .meta({ id: "ActionPlan" });

/** Result of an accepted action. If the platform is unavailable now, the keeper executes it later. */
export const PromisedSchema = z.object({ action_id: z.string() }).meta({ id: "PromisedAction" });

interface PlainAction<Verb extends string> {
  readonly verb: Verb;
  readonly summary: string;
  readonly description: string;
  readonly promised: string;
  readonly plan: (env: EngineEnv, by: Operator, id: string) => Promise<ActionPlan>;
  readonly act: (env: EngineEnv, by: Operator, id: string, reason: string) => Promise<{ actionId: string }>;
}

function plain<Verb extends string>({ verb, summary, description, promised, plan, act }: PlainAction<Verb>) {
  const route = createRoute({
    method: "post",
    path: `/v1/instances/{id}/${verb}`,
    operationId: `${verb}Instance`,
    command: `instances ${verb}`,
    summary,
    description,
    ...needs("operate"),
    request: { params: z.object({ id: z.string() }), query: z.strictObject({}), body: jsonBody(actionSchema) },
    responses: {
      200: answers(`A dry run: the consequences of a ${verb}`, ActionPlanSchema),
      202: answers(promised, PromisedSchema),
      ...problems(...BODY_REFUSALS, "instance_not_found", "invalid_transition"),
    },
  });
  return new Routes<HttpEnv>().openapi(route, async (context) => {
    const { id } = context.req.valid("param");
    const { reason, dry_run } = await readBody(context.req, actionSchema);
    if (dry_run) return context.json(await plan(context.env, context.var.caller, id), 200);
    const { actionId } = await act(context.env, context.var.caller, id, reason);
    return context.json({ action_id: actionId }, 202);
  });
}

const cancelSchema = actionSchema.extend({
  undo: z.boolean().default(true).meta({ description: "True undoes the effects of the instance, false keeps them. Default true." }),
});

const cancelRoute = createRoute({
  method: "post",
  path: "/v1/instances/{id}/cancel",
  operationId: "cancelInstance",
  command: "instances cancel",
  summary: "Cancel a running instance",
  description:
    "No further step starts, also if the instance waits, is paused or has not started. A running effect is recorded first. Then the effects with an undo handler are undone in reverse order, each once, and the instance is terminated. A dry run lists them in that order.",
  ...needs("operate"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject({}), body: jsonBody(cancelSchema) },
  responses: {
    200: answers("A dry run: the consequences of a cancel", ActionPlanSchema),
    202: answers("The cancel was accepted", PromisedSchema),
    ...problems(...BODY_REFUSALS, "instance_not_found", "invalid_transition"),
  },
});

function cancel() {
  return new Routes<HttpEnv>().openapi(cancelRoute, async (context) => {
    const { id } = context.req.valid("param");
    const { reason, dry_run, undo } = await readBody(context.req, cancelSchema);
    if (dry_run) return context.json(await planCancel(context.env, context.var.caller, id, { undo }), 200);
    const { actionId } = await cancelInstance(context.env, context.var.caller, id, { undo, reason });
    return context.json({ action_id: actionId }, 202);
  });
}

const pause = () =>
  plain({
    verb: "pause",
    summary: "Pause an instance",
    description:
      "No step starts until the instance is resumed. A running effect is recorded first. A current sleep or wait continues and may end; an event or an answer that arrives is kept until the resume.",
    promised: "It is paused",
    plan: planPause,
    act: pauseInstance,
  });

const resume = () =>
  plain({
    verb: "resume",
    summary: "Resume a paused instance",
    description: "The instance continues where it was paused.",
    promised: "It goes on",
    plan: planResume,
    act: resumeInstance,
  });

const restart = () =>
  plain({
    verb: "restart",
    summary: "Restart an instance that hangs",
    description:
      "Ends the run when no attempt is running. Then the workflow runs from the beginning with the same keys. Recorded effects return their recorded output and are not repeated.",
    promised: "The restart was accepted",
    plan: planRestart,
    act: restartInstance,
  });

const close = () =>
  plain({
    verb: "close",
    summary: "Close an instance permanently",
    description:
      "A failed or stopped instance becomes `skipped`. Its effects remain unless they were undone. It cannot be retried or undone afterwards, and its alert ends. Also closes an instance that is `in_doubt` without an effect in doubt.",
    promised: "It is closed",
    plan: planClose,
    act: closeInstance,
  });

export function instanceActions() {
  return new Routes<HttpEnv>().route("/", cancel()).route("/", pause()).route("/", resume()).route("/", restart()).route("/", close());
}
