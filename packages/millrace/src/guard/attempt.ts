import type { Pass } from "../pass/pass.ts";
import type { StepCall } from "../pass/step-call.ts";
import type { Attempt } from "../store/inbox/entry.ts";
import type { StepDefinition, Writes } from "./step.ts";

/** An effect of a workflow's code: the call that names it, how it is done, with what input, and what is written with its outcome. */
export interface Effect<Input, Output> {
  readonly pass: Pass;
  readonly step: StepCall;
  readonly definition: StepDefinition<Input, Output>;
  readonly input: Input;
  readonly writes: (output: Output) => Writes;
}

/** One attempt at an effect. */
export interface EffectAttempt<Input, Output> extends Effect<Input, Output> {
  /** As the inbox knows it. */
  readonly attempt: Attempt;
  /** The platform's number of it, from 1. */
  readonly nth: number;
  /** When it began, in milliseconds since 1970. */
  readonly begunAt: number;
}
