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

/** What an operator says of any action on an instance. */
export const actionSchema = reasoned.extend({
  dry_run: z.boolean().default(false).meta({ description: "True only says what would happen, as far as it is recorded." }),
});

/** What a dry run answers, whatever the action. */
export const ActionPlanSchema = z
  .object({
    refused: z.string().nullable().meta({ description: "Why it would be refused now; null when it would be done." }),
    from: z.string().nullable().meta({ description: "The step that it would start from; null for none, and for the beginning." }),
    follows: z.string().meta({ description: "What would follow, in a sentence." }),
    effects: z.array(
      z.object({
        step: z.string(),
        item: z.string(),
        verdict: z.enum(PLAN_VERDICTS).meta({
          description:
            "`kept`: it happened, and stands; `runs`: it is done, or tried again; `caught`: it failed, its code went on without it, and is told so again; `skipped`: it is passed by, by a person's word; `held`: its next attempt waits until the instance is resumed; `under_way`: an attempt is under way, or its answer was lost: what came of it is recorded first; `undone`: it is taken back, or was before; `stays`: its code has no way to; `asked`: the upstream is asked first whether it happened; `repeated`: it may have happened: it is done once more under its key, and then taken back; `nothing`: it did not happen; `in_doubt`: a person has to say whether it did; `unknown`: it failed without a record, and may have happened; `needs_output`: it happened, and its output has to be given.",
        }),
      }),
    ),
  })
  .meta({ id: "ActionPlan" });

/** What an action answers that was promised: the keeper carries it out where the platform cannot be told now. */
export const PromisedSchema = z.object({ action_id: z.string() }).meta({ id: "PromisedAction" });

/** An action on one instance that asks for a reason alone. */
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
    summary,
    description,
    ...needs("operate"),
    request: { params: z.object({ id: z.string() }), query: z.strictObject({}), body: jsonBody(actionSchema) },
    responses: {
      200: answers(`A dry run: what a ${verb} would do`, ActionPlanSchema),
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
  undo: z.boolean().default(true).meta({ description: "False leaves standing what it did. Default true: that is taken back." }),
});

const cancelRoute = createRoute({
  method: "post",
  path: "/v1/instances/{id}/cancel",
  operationId: "cancelInstance",
  summary: "Cancel an instance that is under way",
  description:
    "It begins no step any more, also where it waits, is paused or has not begun; an effect that is under way is recorded first. Then its effects that can be taken back are, in reverse order, each once, and it is terminated. A dry run lists them in that order.",
  ...needs("operate"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject({}), body: jsonBody(cancelSchema) },
  responses: {
    200: answers("A dry run: what a cancel would do", ActionPlanSchema),
    202: answers("It is being cancelled", PromisedSchema),
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
      "No step of it begins until it is resumed; an effect that is under way is recorded first. A sleep or a wait that it is in runs on, also to its end, and an event or an answer that comes is kept until then.",
    promised: "It is paused",
    plan: planPause,
    act: pauseInstance,
  });

const resume = () =>
  plain({
    verb: "resume",
    summary: "Resume a paused instance",
    description: "It goes on where it stood.",
    promised: "It goes on",
    plan: planResume,
    act: resumeInstance,
  });

const restart = () =>
  plain({
    verb: "restart",
    summary: "Restart an instance that hangs",
    description:
      "The run that hangs is ended, once no attempt of it is under way; then its code is passed through from the beginning, under the same keys. Every recorded effect answers from the inbox, and is not repeated.",
    promised: "It is being restarted",
    plan: planRestart,
    act: restartInstance,
  });

const close = () =>
  plain({
    verb: "close",
    summary: "Close an instance for good",
    description:
      "An instance that failed, or was stopped, becomes `skipped`. Effects that no undo has undone remain. No retry or undo follows, and its alert ends. An instance in doubt without an effect in doubt is closed too.",
    promised: "It is closed",
    plan: planClose,
    act: closeInstance,
  });

/** What operators do with one instance, beside a retry and an undo. */
export function instanceActions() {
  return new Routes<HttpEnv>().route("/", cancel()).route("/", pause()).route("/", resume()).route("/", restart()).route("/", close());
}
