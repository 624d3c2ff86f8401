import type { Context } from "hono";
import * as z from "zod";
import type { Hide } from "../contract/hide.ts";
import { hiddenIn } from "../contract/row.ts";
import { type ReplayPlan, ReplayPlanRow } from "../operate/letters/replay.ts";
import type { HttpEnv } from "./env.ts";
import { ProblemSchema, problemOf } from "./problem.ts";

export const ReplayPlanSchema = ReplayPlanRow.extend({ refused: z.union([ProblemSchema, z.null()]) }).meta({ id: "ReplayPlan" });

/** The plan of a dead letter's replay. Texts that may contain the message's sensitive fields are redacted. */
export function replayPlanView(plan: ReplayPlan, { var: { problems } }: Context<HttpEnv>, hide: Hide): z.infer<typeof ReplayPlanSchema> {
  const { refused, ...row } = hiddenIn(ReplayPlanRow, plan, hide);
  return { ...row, refused: refused && hiddenProblem(problemOf(refused, problems), hide) };
}

function hiddenProblem(problem: z.infer<typeof ProblemSchema>, hide: Hide): z.infer<typeof ProblemSchema> {
  const { detail, issues, did_you_mean: meant } = problem;
  return {
    ...problem,
    detail: hide(detail),
    ...(issues && { issues: issues.map(({ path, message }) => ({ path: hide(path), message: hide(message) })) }),
    ...(meant && { did_you_mean: hide(meant) }),
  };
}
