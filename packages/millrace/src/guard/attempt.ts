import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import type { Attempt } from "../store/inbox/entry.ts";
import type { StepDefinition, Writes } from "./step.ts";

/** An effect that a workflow requests: its step call, definition, input and the writes stored with its outcome. */
export interface Effect<Input, Output> {
  readonly replay: Replay;
  readonly step: StepCall;
  readonly definition: StepDefinition<Input, Output>;
  readonly input: Input;
  readonly writes: (output: Output) => Writes;
}

export interface EffectAttempt<Input, Output> extends Effect<Input, Output> {
  readonly attempt: Attempt;
  /** The number that the platform gives the attempt, from 1. */
  readonly nth: number;
  /** When the attempt began, as Unix time in milliseconds. */
  readonly begunAt: number;
}
