import type { Duration } from "../contract/duration.ts";
import type { EventDefinition } from "../contract/message.ts";
import type { StepOutcome } from "../guard/output.ts";
import type { Commit, Policy, Reporting, StepDefinition, Writes } from "../guard/step.ts";
import type { StepCall } from "../replay/step-call.ts";
import type { Approval } from "../signals/approval.ts";
import type { ApprovalRequest } from "./approve.ts";
import type { ChildRecord, ChildRequest } from "./child.ts";

export interface EffectRequest<Input, Output> {
  readonly definition: StepDefinition<Input, Output>;
  readonly input: Input;
  readonly record: (output: Output) => Writes;
  readonly undo: ((output: Output) => Writes) | undefined;
}

export interface CommitRequest<Output> extends Policy {
  readonly make: (call: Reporting) => Commit<Output> | Promise<Commit<Output>>;
  readonly undo: (() => Writes) | undefined;
}

export interface EventRequest {
  readonly event: Pick<EventDefinition, "type" | "access">;
  readonly subject: string;
  readonly timeout?: Duration | undefined;
}

/** How steps behave in a replay: `Executing` executes the steps, and `Undoing` finds the recorded outcomes of the steps. */
export interface StepBehaviour {
  read<Output>(step: StepCall, policy: Policy, read: (nth: number) => Promise<StepOutcome>): Promise<Output>;
  effect<Input, Output>(step: StepCall, request: EffectRequest<Input, Output>): Promise<Output>;
  commit<Output>(step: StepCall, request: CommitRequest<Output>): Promise<Output>;
  sleep(step: StepCall, duration: Duration): Promise<void>;
  /** `open` gets the event's envelope as JSON. */
  waitFor<Payload>(step: StepCall, request: EventRequest, open: (envelope: string) => Promise<Payload>): Promise<Payload>;
  /** Starts a child. The function returns the child's record. */
  start(step: StepCall, request: ChildRequest): Promise<ChildRecord>;
  /** Waits for the end of a child. The function returns the child's result. */
  child<Output>(step: StepCall, record: ChildRecord, request: ChildRequest): Promise<Output>;
  approve(step: StepCall, request: ApprovalRequest): Promise<Approval>;
}

/**
 * An undo throws this error at the first step without a recorded outcome, because no effect after that step needs an undo. The error
 * unwinds the workflow's code. If the code catches the error, the undo continues.
 */
export class EndOfRecord extends Error {
  override readonly name = "EndOfRecord";
}

export function endOfRecord({ label }: StepCall): never {
  throw new EndOfRecord(`"${label}" has no recorded effect to undo.`);
}
