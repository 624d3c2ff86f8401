import type { Context } from "hono";
import type { HttpEnv } from "./env.ts";
import { answerProblem } from "./problem.ts";

type AnswerFailure = (error: unknown, context: Context<HttpEnv>) => Response;

const OWN = new WeakMap<object, { base: string; answer: AnswerFailure }>();

/**
 * Registers how a router answers a failure, for every path below `base`. The router also answers unknown paths, and errors that occur
 * before a route of the router runs.
 */
export function answersBelow(router: object, base: string, answer: AnswerFailure): void {
  OWN.set(router, { base, answer });
}

/** Responds to a failure in the format of the router that owns the path. Without such a router, responds with problem details. */
export function answererOf(routers: readonly object[]): AnswerFailure {
  const own = routers.flatMap((router) => OWN.get(router) ?? []);
  return (error, context) => {
    const found = own.find(({ base }) => context.req.path.startsWith(`${base}/`));
    return found ? found.answer(error, context) : answerProblem(error, context);
  };
}
