import { type Duration, isNoLength } from "../contract/duration.ts";
import { CHILD_PREFIX, labelOf } from "../contract/step-names.ts";
import { attemptCommit } from "../guard/commit.ts";
import { attemptEffect } from "../guard/effect.ts";
import type { StepOutcome } from "../guard/output.ts";
import { skippedRead } from "../guard/skipped.ts";
import type { Policy } from "../guard/step.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import type { Approval } from "../signals/approval.ts";
import type { ApprovalRequest } from "./approve.ts";
import { askPerson, awaitEvent, lastingMs } from "./await.ts";
import { attemptChild, awaitChild, type ChildRecord, type ChildRequest, resultOfChild } from "./child.ts";
import type { Platform } from "./platform.ts";
import { wasSlept } from "./step-attempts.ts";
import type { CommitRequest, EffectRequest, EventRequest, StepBehaviour } from "./step-behaviour.ts";

/** Executes the steps of a workflow. A step runs on the platform, unless its recorded output is in the inbox. */
export class Executing implements StepBehaviour {
  constructor(
    readonly replay: Replay,
    readonly platform: Platform,
    readonly signalled: ReadonlySet<string>,
  ) {}

  read<Output>(step: StepCall, policy: Policy, read: (nth: number) => Promise<StepOutcome>): Promise<Output> {
    const { replay, platform } = this;
    const attempt = async (nth: number) => {
      // The read continues even if the database is unavailable for this write.
      await replay.keepCaught(step).catch(() => undefined);
      return (await skippedRead(replay, step)) ?? read(nth);
    };
    return replay.take(step, () => platform.settle(step, policy, attempt));
  }

  effect<Input, Output>(step: StepCall, { definition, input, record }: EffectRequest<Input, Output>): Promise<Output> {
    const effect = { replay: this.replay, step, definition, input, writes: record };
    return this.replay.take(step, () => this.platform.settle(step, definition, (nth, doubted) => attemptEffect(effect, nth, doubted)));
  }

  commit<Output>(step: StepCall, { make, ...policy }: CommitRequest<Output>): Promise<Output> {
    const attempt = (nth: number) => attemptCommit({ replay: this.replay, step }, nth, make, policy.timeout);
    return this.replay.take(step, () => this.platform.settle(step, policy, attempt));
  }

  sleep(step: StepCall, duration: Duration): Promise<void> {
    return this.replay.take(step, async () => {
      if (isNoLength(duration) && (await wasSlept(this.replay, step.label).catch(() => false))) return;
      await this.platform.sleep(step, lastingMs(this.replay, step.label, duration));
    });
  }

  waitFor<Payload>(step: StepCall, request: EventRequest, open: (envelope: string) => Promise<Payload>): Promise<Payload> {
    const { replay, platform, signalled } = this;
    return replay.take(step, async () => open(await awaitEvent({ replay, platform, step }, request, signalled)));
  }

  start(step: StepCall, request: ChildRequest): Promise<ChildRecord> {
    const { replay, platform } = this;
    // The platform's step has the name of the code's step, so that a retry of the code's step reads the child's present state.
    const label = labelOf(step.name.slice(CHILD_PREFIX.length), step.item);
    const attempt = (nth: number) => attemptChild(replay, step, label, nth, request);
    return replay.take(step, () => platform.settle({ ...step, label, of: step.label }, {}, attempt));
  }

  child<Output>(step: StepCall, record: ChildRecord, { hide }: ChildRequest): Promise<Output> {
    const { replay, platform } = this;
    return replay.take(step, async () => {
      const end = await awaitChild(replay, platform, step, record);
      try {
        return (await platform.reading(step, () => resultOfChild(replay, step, end, hide))) as Output;
      } catch (error) {
        replay.failures.noteEnd(step.label, error);
        throw error;
      }
    });
  }

  approve(step: StepCall, request: ApprovalRequest): Promise<Approval> {
    const { replay, platform } = this;
    return replay.take(step, () => askPerson({ replay, platform, step }, request));
  }
}
