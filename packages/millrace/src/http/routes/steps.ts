import * as z from "zod";
import type { Hide } from "../../contract/hide.ts";
import { OWN_PARTS } from "../../contract/step-names.ts";
import { getInstance } from "../../inspect/instances.ts";
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

const AttemptSchema = z
  .object({
    attempt: z.int().meta({ description: "1-based; starts again when the instance is restarted." }),
    started_at: timestamp,
    ended_at: timestamp.nullable(),
    error: z.object({ name: z.string(), message: z.string() }).nullable(),
    retry_delay_ms: z.int().nullable().meta({ description: "What the platform waits before the next attempt." }),
  })
  .meta({ id: "Attempt" });

const StepSchema = z
  .object({
    type: z.enum(["do", "sleep", "waitForEvent"]),
    name: z.string().meta({ description: "As the code names it; a wait has the name of its step, which first says that it waits (`do`)." }),
    own: z
      .object({ of: z.string(), part: z.enum(OWN_PARTS) })
      .nullable()
      .meta({
        description:
          "Null for a step of the code. For one of the engine's own: the step `of` the code that it is about, and what it is for. `in_doubt`, `paused`: the wait for a person's word; `after_doubt`, `after_pause`: the attempt behind that; `signal`, `answer`: the wait for an event or an answer; `time_over`: the look at what came of that; `read_again`: a read that was out of reach; `run`: the step tried anew.",
      }),
    mode: z.enum(["platform", "lean"]).meta({ description: "`lean`: a pass took it itself; the platform has none of it, and bills none." }),
    kept: z.boolean().meta({ description: "True for a lean one that an earlier run took: this one keeps what came of it." }),
    count: z.int().meta({ description: "Tells calls of one name apart, in the order they were made." }),
    state: z
      .enum(["running", "retrying", "sleeping", "waiting", "in_doubt", "paused", "complete", "errored", "timed_out", "stopped"])
      .meta({
        description:
          "`in_doubt`: a person has to say whether its effect happened; behind it stand the wait for that and what follows, which are the engine's `own`. `paused`: a person had paused the run before it began; the same stand behind it. `stopped`: its run has ended, and it had not; or a person had stopped the run before it began.",
      }),
    started_at: timestamp.nullable().meta({ description: "Null for a step whose history the platform has forgotten." }),
    ended_at: timestamp.nullable(),
    attempts: z.array(AttemptSchema).meta({
      description:
        "Of the present run, as the platform counts them; none where it has forgotten them. What it waits between two is `retry_delay_ms`.",
    }),
    next_attempt_at: timestamp.nullable().meta({ description: "For one that is `retrying`: when the next attempt is made." }),
    duration_ms: z.int().nullable().meta({ description: "For a sleep: how long." }),
    until: timestamp.nullable().meta({ description: "For a sleep, and a wait that lasts: until when." }),
    event_type: z
      .string()
      .nullable()
      .meta({ description: "For a wait: for which type of event; null for a question, for a doubt and for a pause." }),
    subject: z.string().nullable().meta({ description: "For a wait: what the event has to be about." }),
    approval_id: z.string().nullable().meta({ description: "For a question: which." }),
    effects: z
      .array(z.object({ key: z.string(), class: z.string(), generation: z.int(), state: z.string() }))
      .meta({ description: "Its effects as they are recorded, each generation by itself; `/effects` has them whole." }),
  })
  .meta({ id: "Step" });

const list = createRoute({
  method: "get",
  path: "/v1/instances/{id}/steps",
  operationId: "listSteps",
  summary: "List an instance's steps with their attempts, sleeps and waits",
  description:
    "From the platform's own history, which it keeps for as long as it keeps the instance, and of the present run: a retry makes steps anew. What it has forgotten is shown by its recorded effects, without attempts; a lean step by its effect, with its attempt.",
  ...needs("read"),
  request: { params: z.object({ id: z.string() }) },
  responses: {
    200: answers(
      "Its steps, oldest first",
      z.object({
        items: z.array(StepSchema),
        truncated: z.boolean().meta({ description: "True when the platform had more to tell than this answer takes." }),
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
  const { startedAt, endedAt, attempts, durationMs, until, eventType, approvalId, ...step } = named;
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
    next_attempt_at: isoOrNull(nextAttemptAt(named)),
    duration_ms: durationMs,
    until: isoOrNull(until),
    event_type: eventType,
    approval_id: approvalId,
  };
}
