import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { REPLAY_OUTCOMES, type ReplayPlan } from "../operate/plan-replay.ts";
import { INSTANCE_STATUSES } from "../store/instances/status.ts";
import type { HttpEnv } from "./env.ts";
import { fingerprintSchema, fingerprintView } from "./fingerprint.ts";
import { ProblemSchema, problemOf } from "./problem.ts";

export const ReplayPlanSchema = z
  .object({
    outcome: z.enum(REPLAY_OUTCOMES).openapi({
      description:
        "`starts` an instance; `duplicate`: an instance of the same work has the key, and nothing is sent; `follows`: an event's routes are followed; `sent`: back to a pull queue; `refused`: the letter stays open, and `refused` says why; `settled`: somebody has settled it.",
    }),
    why: z.string(),
    refused: z.union([ProblemSchema, z.null()]),
    queue: z.string().nullable().openapi({ description: "The queue that it would go to." }),
    identity: z
      .object({
        tenant_id: z.string(),
        message_type: z.string(),
        idempotency_key: z.string(),
        subject: z.string(),
        fingerprint: fingerprintSchema,
      })
      .nullable()
      .openapi({ description: "The name under which the message would be sent; null where it has none that can be read." }),
    instance: z
      .object({ id: z.string(), status: z.enum([...INSTANCE_STATUSES, "pruned"]) })
      .nullable()
      .openapi({ description: "Of a command: the instance whose key it is now; null where the key is free." }),
  })
  .openapi("ReplayPlan");

export function replayPlanView(plan: ReplayPlan, { env, var: { problems } }: Context<HttpEnv>): z.infer<typeof ReplayPlanSchema> {
  const { outcome, why, refused, queue, identity, holder } = plan;
  return {
    ...{ outcome, why, queue },
    refused: refused && problemOf(refused, problems),
    identity: identity && {
      tenant_id: identity.tenantId,
      message_type: identity.messageType,
      idempotency_key: identity.idempotencyKey,
      subject: identity.subject,
      fingerprint: fingerprintView(env, identity.tenantId, identity.fingerprint),
    },
    instance: holder,
  };
}
