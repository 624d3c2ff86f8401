import type { EngineEnv } from "../../contract/bindings.ts";
import type { Operator } from "../../store/actions.ts";
import type { AnswerOf, Asked, GivenOf, InstanceAct } from "./act.ts";
import { move, release } from "./delay.ts";
import type { ActionPlan } from "./plan.ts";
import { retry } from "./retry.ts";
import { runAgain } from "./run-again.ts";
import { signal } from "./signal.ts";
import { skip } from "./skip-step.ts";
import { cancel, close, pause, restart, resume } from "./stop.ts";
import { undo } from "./undo.ts";

/** The acts on an instance by name. The name of an act is also the verb of the command line. */
export const INSTANCE_ACTS = { retry, undo, cancel, pause, resume, restart, skip, signal, close, "run-again": runAgain, move, release };

type Acts = typeof INSTANCE_ACTS;
export type ActName = keyof Acts;
type Given<Name extends ActName> = Acts[Name] extends InstanceAct<string, infer Of, infer _> ? GivenOf<Of> : never;
type Answer<Name extends ActName> = Acts[Name] extends InstanceAct<string, infer _, infer Of> ? AnswerOf<Of> : never;

/** Further arguments of `signal` and `run-again`. A repeated request with the same key has no second effect. */
type More = Pick<Asked<unknown>, "catalog" | "key">;

/** Dry run of an act on an instance. Errors: `instance_not_found`, and the errors of the act's route. */
export function planAct<Name extends ActName>(
  env: EngineEnv,
  by: Operator,
  name: Name,
  id: string,
  given: Given<Name>,
  more: More = {},
): Promise<ActionPlan> {
  return INSTANCE_ACTS[name].plan({ env, by, given: given as never, ...more }, id);
}

/** As the HTTP route of the act. Errors: as `planAct`; `invalid_transition`, audited as no change, if the act is refused. */
export function actOn<Name extends ActName>(
  env: EngineEnv,
  by: Operator,
  name: Name,
  id: string,
  given: Given<Name> & { reason: string },
  more: More = {},
): Promise<Answer<Name>> {
  return INSTANCE_ACTS[name].act({ env, by, given: given as never, ...more }, id) as Promise<never>;
}
