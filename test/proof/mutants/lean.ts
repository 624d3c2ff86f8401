import { mutantsOf } from "./mutant.ts";

const LEAN = "packages/millrace/src/pass/lean.ts";
const PLATFORM = "packages/millrace/src/workflow/platform.ts";
const IN_PASS = "packages/millrace/src/workflow/in-pass.ts";
const INBOX = "packages/millrace/src/pass/inbox.ts";
const PASSES = "packages/millrace/src/recorder/passes.ts";
const killedBy = "test/engine/pass/lean/steps.test.ts";

/** Steps that a replay runs itself without permission, or that have no record. */
export const LEAN_STEPS = mutantsOf("lean", {
  "a pass takes a step itself that a pass before may have begun": {
    file: INBOX,
    find: "return (this.#isFirst && this.#proof !== undefined) || this.course.isBeyond;",
    put: "return true;",
    killedBy,
  },
  "a replay is considered the first by its own process's memory": {
    file: INBOX,
    find: "if (!(await this.#proof)) this.#isFirst = false;",
    put: "await this.#proof;",
    killedBy,
  },
  "a memory that has just begun takes every pass for the first": {
    file: PASSES,
    find: "createdMs > this.#since + CLOCKS_APART_MS",
    put: "createdMs > 0",
    killedBy,
  },
  "two passes of an instance are both the first": {
    file: PASSES,
    find: "(known ?? pass) === pass",
    put: 'pass !== ""',
    killedBy,
  },
  "a branch's result is new to the others": {
    file: "packages/millrace/src/pass/course.ts",
    find: "this.#beyond ||= this.#underWay.size === 0 && this.#anew.has(settlement.label);",
    put: "this.#beyond ||= this.#anew.has(settlement.label);",
    killedBy,
  },
  "a step that a replay ran itself is run by the platform in the next one": {
    file: INBOX,
    find: 'last?.state === "done" && last.ended_at !== null',
    put: 'last?.state === "done" && last.ended_at === 0',
    killedBy,
  },
  "an attempt that a pass has made counts for none": {
    file: PLATFORM,
    find: "attempt === 1 && inPass",
    put: "attempt === 0 && inPass",
    killedBy,
  },
  "the platform knows nothing of a doubt that a pass has left": {
    file: IN_PASS,
    find: "(isParked(result) ? undefined : { result })",
    put: "({ result })",
    killedBy,
  },
  "a slow attempt continues without a record": {
    file: IN_PASS,
    find: "Promise.race([ended, slow.promise])",
    put: "ended",
    killedBy,
  },
  "an attempt that the platform has taken over is recorded as the pass's own": {
    file: LEAN,
    find: "this.#begun.delete(label);",
    put: "this.#begun.get(label);",
    killedBy,
  },
  "an effect in the replay's memory only could be undone": {
    file: "packages/millrace/src/guard/goes-lean.ts",
    find: "return !effect.undoable ||",
    put: "return effect !== undefined ||",
    killedBy,
  },
  "a lean stretch never ends": {
    file: LEAN,
    find: "this.#steps < STRETCH.steps &&",
    put: "this.#steps >= 0 &&",
    killedBy,
  },
  "a cancel ends a run while a pass of it is at work": {
    file: "packages/millrace/src/operate/carry-out/end-run.ts",
    find: "return steps.length === 0 || (await query(env.DB, selectLean(id))).length > 0;",
    put: "return steps.length === 0 && (await query(env.DB, selectLean(id))).length > 9;",
    killedBy: "test/engine/pass/lean/steered.test.ts",
  },
  "another replay's record meanwhile counts as this one's own": {
    file: "packages/millrace/src/pass/course.ts",
    find: "this.#anew.delete(label);",
    put: "this.#anew.has(label);",
    killedBy,
  },
  "another replay's claim counts as this one's own": {
    file: "packages/millrace/src/guard/claim.ts",
    find: "pass.inbox.noteOther(step);",
    put: "",
    killedBy,
  },
  "a recorder forgets a pass while its instance is young": {
    file: PASSES,
    find: "this.#lately.get(instanceId) ?? this.#before.get(instanceId)",
    put: "this.#lately.get(instanceId)",
    killedBy,
  },
  "calls count for nothing in a lean stretch": {
    file: LEAN,
    find: "this.#calls < STRETCH.calls &&",
    put: "this.#calls >= 0 &&",
    killedBy,
  },
  "a step of the platform's begins no new lean stretch": {
    file: PLATFORM,
    find: "this.#pass.lean.noteStep();",
    put: "",
    killedBy,
  },
  "another replay's found record counts as this one's": {
    file: INBOX,
    find: 'else if (seen.state === "done" && !seen.token.startsWith(this.#pass)) this.course.noteOther(step.label);',
    put: "",
    killedBy,
  },
});
