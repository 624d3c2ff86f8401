import { mutantsOf } from "./mutant.ts";

const INLINE = "packages/millrace/src/replay/inline.ts";
const PLATFORM = "packages/millrace/src/workflow/platform.ts";
const IN_PASS = "packages/millrace/src/replay/inline.ts";
const INBOX = "packages/millrace/src/replay/inbox.ts";
const PASSES = "packages/millrace/src/recorder/recorder.ts";
const killedBy = "test/engine/replay/inline/steps.test.ts";

/** Steps that a replay executes inline without permission, or without a record. */
export const INLINE_STEPS = mutantsOf("inline", {
  "a replay executes a step inline that an earlier replay may have started": {
    file: INBOX,
    find: "return (this.#isFirst && this.#proof !== undefined) || this.stepOrder.isBeyond;",
    put: "return true;",
    killedBy,
  },
  "a replay counts as the first by its own process's memory": {
    file: INBOX,
    find: "if (!(await this.#proof)) this.#isFirst = false;",
    put: "await this.#proof;",
    killedBy,
  },
  "a recorder that has just started treats every replay as the first": {
    file: PASSES,
    find: "createdMs > this.#since + CLOCKS_APART_MS",
    put: "createdMs > 0",
    killedBy,
  },
  "two replays of an instance both count as the first": {
    file: PASSES,
    find: "(known ?? replay) === replay",
    put: 'replay !== ""',
    killedBy,
  },
  "a branch's result is not available to the other branches": {
    file: "packages/millrace/src/replay/step-order.ts",
    find: "this.#beyond ||= this.#underWay.size === 0 && this.#anew.has(settlement.label);",
    put: "this.#beyond ||= this.#anew.has(settlement.label);",
    killedBy,
  },
  "a step that one replay executed inline is executed by the platform in the next": {
    file: INBOX,
    find: 'last?.state === "done" && last.ended_at !== null',
    put: 'last?.state === "done" && last.ended_at === 0',
    killedBy,
  },
  "an inline attempt does not count as an attempt": {
    file: PLATFORM,
    find: "attempt === 1 && endedInline",
    put: "attempt === 0 && endedInline",
    killedBy,
  },
  "the platform is not informed of an unknown outcome of an inline step": {
    file: IN_PASS,
    find: "(isParked(result) ? undefined : { result })",
    put: "({ result })",
    killedBy,
  },
  "a slow inline attempt does not become a platform step": {
    file: IN_PASS,
    find: "Promise.race([ended, slow.promise])",
    put: "ended",
    killedBy,
  },
  "an attempt that the platform has taken over is recorded as an inline attempt": {
    file: INLINE,
    find: "this.#begun.delete(label);",
    put: "this.#begun.get(label);",
    killedBy,
  },
  "an effect that is only in the replay's memory can be undone": {
    file: "packages/millrace/src/replay/inline.ts",
    find: "return !effect.undoable ||",
    put: "return effect !== undefined ||",
    killedBy,
  },
  "a sequence of inline steps never ends": {
    file: INLINE,
    find: "this.#steps < STRETCH.steps &&",
    put: "this.#steps >= 0 &&",
    killedBy,
  },
  "a cancel ends a run while one of its replays is running": {
    file: "packages/millrace/src/operate/carry-out/platform-runs.ts",
    find: "return steps.length === 0 || (await query(env.DB, selectInline(id))).length > 0;",
    put: "return steps.length === 0 && (await query(env.DB, selectInline(id))).length > 9;",
    killedBy: "test/engine/replay/inline/steered.test.ts",
  },
  "another replay's new record counts as this replay's own": {
    file: "packages/millrace/src/replay/step-order.ts",
    find: "this.#anew.delete(label);",
    put: "this.#anew.has(label);",
    killedBy,
  },
  "another replay's claim counts as this replay's own": {
    file: "packages/millrace/src/guard/claim.ts",
    find: "replay.inbox.noteOther(step);",
    put: "",
    killedBy,
  },
  "a recorder forgets a replay while its instance is young": {
    file: "packages/millrace/src/contract/recent.ts",
    find: "this.#lately.get(key) ?? this.#before.get(key)",
    put: "this.#lately.get(key)",
    killedBy,
  },
  "calls in a sequence of inline steps are not counted": {
    file: INLINE,
    find: "this.#calls < STRETCH.calls &&",
    put: "this.#calls >= 0 &&",
    killedBy,
  },
  "a step of the platform does not start a new sequence of inline steps": {
    file: PLATFORM,
    find: "this.#replay.inline.noteStep();",
    put: "",
    killedBy,
  },
  "another replay's existing record counts as this replay's own": {
    file: INBOX,
    find: 'else if (seen.state === "done" && !seen.token.startsWith(this.#replay)) this.stepOrder.noteOther(step.label);',
    put: "",
    killedBy,
  },
});
