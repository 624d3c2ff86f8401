import type { Context } from "hono";
import * as z from "zod";
import type { Hide } from "../contract/hide.ts";
import { Fingerprint } from "../inspect/keys.ts";
import { REPLAY_OUTCOMES, type ReplayPlan } from "../operate/letters/plan-replay.ts";
import { INSTANCE_STATUSES } from "../store/instances/status.ts";
import type { HttpEnv } from "./env.ts";
import { fingerprintView } from "./fingerprint.ts";
import { ProblemSchema, problemOf } from "./problem.ts";

export const ReplayPlanSchema = z
  .object({
    outcome: z.enum(REPLAY_OUTCOMES).meta({
      description:
        "`starts`: starts an instance. `duplicate`: an instance of the same work has the key, and nothing is sent. `follows`: the event goes to its routes. `sent`: goes back to a pull queue. `refused`: the dead letter remains open; `refused` has the reason. `settled`: it was settled before.",
    }),
    why: z.string(),
    refused: z.union([ProblemSchema, z.null()]),
    queue: z.string().nullable().meta({ description: "The target queue." }),
    identity: z
      .object({
        tenant_id: z.string(),
        message_type: z.string(),
        idempotency_key: z.string(),
        subject: z.string(),
        fingerprint: Fingerprint,
      })
      .nullable()
      .meta({ description: "The identity of the message; null if it is not readable." }),
    instance: z
      .object({ id: z.string(), status: z.enum([...INSTANCE_STATUSES, "pruned"]) })
      .nullable()
      .meta({ description: "For a command: the instance that holds the key; null if the key is free." }),
  })
  .meta({ id: "ReplayPlan" });

/** The plan of a dead letter's replay. Texts that may contain the message's sensitive fields are redacted. */
export function replayPlanView(
  plan: ReplayPlan,
  { env, var: { problems } }: Context<HttpEnv>,
  hide: Hide,
): z.infer<typeof ReplayPlanSchema> {
  const { outcome, why, refused, queue, identity, holder } = plan;
  return {
    ...{ outcome, why: hide(why), queue },
    refused: refused && hiddenIn(problemOf(refused, problems), hide),
    identity: identity && {
      tenant_id: hide(identity.tenantId),
      message_type: hide(identity.messageType),
      idempotency_key: hide(identity.idempotencyKey),
      subject: hide(identity.subject),
      fingerprint: fingerprintView(env, identity.tenantId, identity.fingerprint),
    },
    instance: holder,
  };
}

function hiddenIn(problem: z.infer<typeof ProblemSchema>, hide: Hide): z.infer<typeof ProblemSchema> {
  const { detail, issues, did_you_mean: meant } = problem;
  return {
    ...problem,
    detail: hide(detail),
    ...(issues && { issues: issues.map(({ path, message }) => ({ path: hide(path), message: hide(message) })) }),
    ...(meant && { did_you_mean: hide(meant) }),
  };
}
