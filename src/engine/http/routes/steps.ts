import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { type NamedStep, stepsOf } from "../../inspect/history.ts";
import { getInstance } from "../../inspect/instances.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const AttemptSchema = z
  .object({
    attempt: z.int().openapi({ description: "1-based; starts again when the instance is restarted." }),
    started_at: timestamp,
    ended_at: timestamp.nullable(),
    error: z.object({ name: z.string(), message: z.string() }).nullable(),
    retry_delay_ms: z.int().nullable().openapi({ description: "What the platform waits before the next attempt." }),
  })
  .openapi("Attempt");

const StepSchema = z
  .object({
    type: z.enum(["do", "sleep", "waitForEvent"]),
    name: z
      .string()
      .openapi({ description: "As the code names it; a wait has the name of its step, which first says that it waits (`do`)." }),
    count: z.int().openapi({ description: "Tells calls of one name apart, in the order they were made." }),
    state: z.enum(["running", "retrying", "sleeping", "waiting", "complete", "errored", "timed_out"]),
    started_at: timestamp,
    ended_at: timestamp.nullable(),
    attempts: z.array(AttemptSchema),
    duration_ms: z.int().nullable().openapi({ description: "For a sleep: how long." }),
    event_type: z.string().nullable().openapi({ description: "For a wait: for which type of event; null for a question." }),
    subject: z.string().nullable().openapi({ description: "For a wait: what the event has to be about." }),
    approval_id: z.string().nullable().openapi({ description: "For a question: which." }),
  })
  .openapi("Step");

const list = createRoute({
  method: "get",
  path: "/v1/instances/{id}/steps",
  operationId: "listSteps",
  summary: "List an instance's steps with their attempts, sleeps and waits",
  description: "From the platform's own history, which it keeps for as long as it keeps the instance.",
  ...needs("read"),
  request: { params: z.object({ id: z.string() }) },
  responses: {
    200: answers(
      "Its steps, oldest first",
      z.object({
        items: z.array(StepSchema),
        truncated: z.boolean().openapi({ description: "True when the platform had more to tell than this answer takes." }),
      }),
    ),
    ...problems("unauthorized", "forbidden", "instance_not_found"),
  },
});

export function steps() {
  return new OpenAPIHono<HttpEnv>().openapi(list, async (context) => {
    const instance = await getInstance(context.env, context.var.caller, context.req.valid("param").id);
    const history = await stepsOf(context.env, instance);
    return context.json({ items: history.steps.map(stepView), truncated: history.truncated }, 200);
  });
}

function stepView({ startedAt, endedAt, attempts, durationMs, eventType, approvalId, ...step }: NamedStep): z.infer<typeof StepSchema> {
  return {
    ...step,
    started_at: iso(startedAt),
    ended_at: isoOrNull(endedAt),
    attempts: attempts.map(({ attempt, startedAt, endedAt, error, retryDelayMs }) => ({
      attempt,
      started_at: iso(startedAt),
      ended_at: isoOrNull(endedAt),
      error,
      retry_delay_ms: retryDelayMs,
    })),
    duration_ms: durationMs,
    event_type: eventType,
    approval_id: approvalId,
  };
}
