import * as z from "zod";
import type { Hide } from "../../contract/hide.ts";
import { OWN_PARTS } from "../../contract/step-names.ts";
import { getInstance, StepProgress } from "../../inspect/instances.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { nextAttemptAt } from "../../inspect/standing.ts";
import { type NamedStep, stepsOf } from "../../inspect/steps.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { attemptErrorView } from "../attempt-error.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";
import { progressView } from "./instances.ts";

const AttemptSchema = z
  .object({
    attempt: z.int().meta({ description: "The number of the attempt. It starts at 1, again after a restart of the instance." }),
    started_at: timestamp,
    ended_at: timestamp.nullable(),
    error: z.object({ name: z.string(), message: z.string() }).nullable(),
    retry_delay_ms: z.int().nullable().meta({ description: "The delay before the next attempt on the platform." }),
  })
  .meta({ id: "Attempt" });

const StepSchema = z
  .object({
    type: z.enum(["do", "sleep", "waitForEvent"]),
    name: z.string().meta({ description: "The step's name in the code. A wait has the name of its step, which first runs as `do`." }),
    own: z
      .object({ of: z.string(), part: z.enum(OWN_PARTS) })
      .nullable()
      .meta({
        description:
          "Null for a step of the workflow code. For a step of the engine: the step of the code (`of`) and its purpose. `in_doubt`, `paused`: waits for an operator. `after_doubt`, `after_pause`: the attempt after that wait. `signal`, `answer`: waits for an event or an answer. `time_over`: the check at the timeout. `read_again`: repeats a read that was unavailable. `run`: a new attempt of the step.",
      }),
    mode: z.enum(["platform", "lean"]).meta({ description: "`lean`: an inline step without a platform step, which is not billed." }),
    kept: z.boolean().meta({ description: "True for an inline step of an earlier run; this run keeps its output." }),
    count: z.int().meta({ description: "Distinguishes calls with the same name, in call order." }),
    state: z
      .enum(["running", "retrying", "sleeping", "waiting", "in_doubt", "paused", "complete", "errored", "timed_out", "stopped"])
      .meta({
        description:
          "`in_doubt`: an operator must decide whether its effect happened; the wait and the following steps come next, with `own`. `paused`: an operator paused the run before it started; the same steps follow. `stopped`: its run ended before the step did, or was stopped before it started.",
      }),
    started_at: timestamp.nullable().meta({ description: "When the step started. Null if the platform has removed the step's history." }),
    ended_at: timestamp.nullable(),
    attempts: z.array(AttemptSchema).meta({
      description: "Attempts of the current run from the platform; empty if removed there. The delay between two is `retry_delay_ms`.",
    }),
    max_attempts: z
      .int()
      .nullable()
      .meta({ description: "The first attempt and all retries; null for a sleep, a wait and an inline step, and if unknown." }),
    next_attempt_at: timestamp.nullable().meta({ description: "For a `retrying` step: when the next attempt starts." }),
    duration_ms: z.int().nullable().meta({ description: "For a sleep: its duration." }),
    until: timestamp.nullable().meta({ description: "For a sleep, and for a current wait: its end." }),
    event_type: z
      .string()
      .nullable()
      .meta({ description: "For a wait: the event type; null for a question, an unknown outcome and a pause." }),
    subject: z.string().nullable().meta({ description: "For a wait: the required subject of the event." }),
    approval_id: z.string().nullable().meta({ description: "The id of the question for which the step waits; null for other steps." }),
    progress: StepProgress.nullable().meta({
      description: "The last progress that its last attempt reported, at most one report a second; null without a report.",
    }),
    effects: z
      .array(z.object({ key: z.string(), class: z.string(), generation: z.int(), state: z.string() }))
      .meta({ description: "Its recorded effects, one per generation. `/effects` has all details." }),
  })
  .meta({ id: "Step" });

const list = createRoute({
  method: "get",
  path: "/v1/instances/{id}/steps",
  operationId: "listSteps",
  command: "instances steps",
  summary: "List the steps of an instance",
  description:
    "Returns the steps of the current run with attempts, sleeps and waits, from the history of the platform. Removed history is replaced by the recorded effects, without attempts. An inline step is shown by its effect, with its attempt.",
  ...needs("read"),
  request: { params: z.object({ id: z.string() }) },
  responses: {
    200: answers(
      "The steps, oldest first",
      z.object({
        items: z.array(StepSchema),
        truncated: z.boolean().meta({ description: "True if the platform has more steps than this answer contains." }),
      }),
    ),
    ...problems("unauthorized", "forbidden", "instance_not_found"),
  },
});

export function steps(catalog: Catalog) {
  return new Routes<HttpEnv>().openapi(list, async (context) => {
    const instance = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
    const hide = (await redactionOf(catalog).ofInstances(context.env, context.var.caller, [instance.id]))(instance.id);
    const history = await stepsOf(context.env, context.var.caller, instance);
    return context.json({ items: history.steps.map((step) => stepView(step, hide)), truncated: history.truncated }, 200);
  });
}

function stepView(named: NamedStep, hide: Hide): z.infer<typeof StepSchema> {
  const { startedAt, endedAt, attempts, maxAttempts, durationMs, until, eventType, approvalId, progress, ...step } = named;
  return {
    ...step,
    started_at: isoOrNull(startedAt),
    ended_at: isoOrNull(endedAt),
    attempts: attempts.map(({ attempt, startedAt, endedAt, error, retryDelayMs }) => ({
      attempt,
      started_at: iso(startedAt),
      ended_at: isoOrNull(endedAt),
      error: error && attemptErrorView(error, hide),
      retry_delay_ms: retryDelayMs,
    })),
    max_attempts: maxAttempts,
    next_attempt_at: isoOrNull(nextAttemptAt(named)),
    duration_ms: durationMs,
    until: isoOrNull(until),
    event_type: eventType,
    approval_id: approvalId,
    progress: progressView(progress, hide),
  };
}
