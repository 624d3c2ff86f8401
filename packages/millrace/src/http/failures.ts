import type { Context } from "hono";
import type { HttpEnv } from "./env.ts";
import { answerProblem } from "./problem.ts";

type AnswerFailure = (error: unknown, context: Context<HttpEnv>) => Response;

/** Routers whose clients read failures in a shape of their own. */
const OWN = new WeakMap<object, { base: string; answer: AnswerFailure }>();

/** Every failure below a path is answered in its router's own shape, also one that comes before its routes, or where it has none. */
export function answersBelow(router: object, base: string, answer: AnswerFailure): void {
  OWN.set(router, { base, answer });
}

/** Answers a failure as the router does whose path it is; else with problem details. */
export function answererOf(routers: readonly object[]): AnswerFailure {
  const own = routers.flatMap((router) => OWN.get(router) ?? []);
  return (error, context) => {
    const found = own.find(({ base }) => context.req.path.startsWith(`${base}/`));
    return found ? found.answer(error, context) : answerProblem(error, context);
  };
}
