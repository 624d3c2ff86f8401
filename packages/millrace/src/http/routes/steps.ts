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
    attempt: z.int().meta({ description: "The number of the attempt, from 1, and again from 1 after a restart of the instance." }),
    started_at: timestamp,
    ended_at: timestamp.nullable(),
    error: z.object({ name: z.string(), message: z.string() }).nullable(),
    retry_delay_ms: z.int().nullable().meta({ description: "The delay before the next attempt on the platform." }),
  })
  .meta({ id: "Attempt" });

const StepSchema = z
  .object({
    type: z.enum(["do", "sleep", "waitForEvent"]),
    name: z.string().meta({ description: "The step's name in the code. A wait has the name of the step that waits." }),
    own: z
      .object({ of: z.string(), part: z.enum(OWN_PARTS) })
      .nullable()
      .meta({
        description:
          "Null for a step of the workflow code. A step that the engine adds names the step of the code (`of`) and its purpose (`part`). `in_doubt`, `paused`: the step waits for an operator. `after_doubt`, `after_pause`: the attempt after an operator's decision. `signal`, `answer`: the step waits for an event or an answer. `time_over`: the check at the timeout. `read_again`: the step repeats a read that was unavailable. `run`: a new attempt of the step.",
      }),
    mode: z.enum(["platform", "lean"]).meta({ description: "`lean`: an inline step without a platform step, which is not billed." }),
    kept: z.boolean().meta({ description: "True for an inline step of an earlier run, whose output this run keeps." }),
    count: z.int().meta({ description: "The number of the call among calls with the same step name." }),
    state: z
      .enum(["running", "retrying", "sleeping", "waiting", "in_doubt", "paused", "complete", "errored", "timed_out", "stopped"])
      .meta({
        description:
          "`in_doubt`: an operator must decide whether the step's effect happened; steps with `own` follow. `paused`: an operator paused the run before the step started; steps with `own` follow. `stopped`: the run ended before the step ended or started.",
      }),
    started_at: timestamp.nullable().meta({ description: "The start of the step; null if the platform has removed the step's history." }),
    ended_at: timestamp.nullable(),
    attempts: z.array(AttemptSchema).meta({
      description:
        "The attempts of the current run; empty if the platform has removed them. `retry_delay_ms` is the delay between two attempts.",
    }),
    max_attempts: z
      .int()
      .nullable()
      .meta({ description: "The maximum number of attempts, with retries; null for a sleep, a wait and an inline step, and if unknown." }),
    next_attempt_at: timestamp
      .nullable()
      .meta({ description: "The start of the next attempt of a `retrying` step; null for other steps." }),
    duration_ms: z.int().nullable().meta({ description: "The duration of a sleep; null for other steps." }),
    until: timestamp.nullable().meta({ description: "The end of a sleep or of a current wait; null for other steps." }),
    event_type: z
      .string()
      .nullable()
      .meta({ description: "The event type that a wait needs; null for a question, an unknown outcome and a pause." }),
    subject: z.string().nullable().meta({ description: "The event subject that a wait needs; null for other steps." }),
    approval_id: z.string().nullable().meta({ description: "The id of the question for which the step waits; null for other steps." }),
    progress: StepProgress.nullable().meta({
      description: "The last progress that its last attempt reported, at most one report a second; null without a report.",
    }),
    effects: z
      .array(z.object({ key: z.string(), class: z.string(), generation: z.int(), state: z.string() }))
      .meta({ description: "The recorded effects of the step, one per generation. `/effects` has all details." }),
  })
  .meta({ id: "Step" });

const list = createRoute({
  method: "get",
  path: "/v1/instances/{id}/steps",
  operationId: "listSteps",
  command: "instances steps",
  summary: "List the steps of an instance",
  description:
    "Returns the steps of the current run with attempts, sleeps and waits, from the history of the platform. Removed history is replaced by the recorded effects, without attempts. The recorded effect of an inline step is shown as the step.",
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
