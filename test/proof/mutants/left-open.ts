import { mutantsOf } from "./mutant.ts";

const PLATFORM = "packages/millrace/src/workflow/platform.ts";
const RESTS = "test/engine/operate/caught-before-rest.test.ts";
const LATER = "test/engine/operate/undo-refused-later.test.ts";
const CAUGHT = "test/engine/replay/caught.test.ts";
const READS = "test/engine/operate/cancel-reading.test.ts";

/** Errors of an undo and of dry runs about effects that failed without a record. */
export const LEFT_OPEN = mutantsOf("operators", {
  "an undo ignores a caught failure without a record": {
    file: "packages/millrace/src/workflow/undo-effects.ts",
    find: "failed || cutOff.has(label)",
    put: "cutOff.has(label)",
    killedBy: "test/engine/operate/caught-unrecorded.test.ts",
  },
  "a run that has only failures without a record cannot be undone": {
    file: "packages/millrace/src/store/instances/run.ts",
    find: "(millrace_instances.undo IS NULL AND",
    put: "(false AND",
    killedBy: "test/engine/operate/caught-unrecorded.test.ts",
  },
  "a dry run reports a lookup with a caught failure as running": {
    file: "packages/millrace/src/operate/instances/retry.ts",
    find: '(state === "failed" || state === "claimed") && caught',
    put: 'state === "failed" && caught',
    killedBy: "test/engine/operate/caught-unrecorded.test.ts",
  },
  "an operator cannot exclude an effect from an undo that it cannot repeat": {
    file: "packages/millrace/src/operate/instances/skip-step.ts",
    find: " || (await pastOf(env, instance)).unrecorded.has(label)",
    put: "",
    killedBy: "test/engine/operate/caught-unrecorded.test.ts",
  },
  "a sleep starts after a caught failure without a record": {
    file: PLATFORM,
    find: "await this.reading(step, () => this.#replay.keepCaught(step));",
    put: "",
    killedBy: RESTS,
  },
  "a retry delay starts after a caught failure without a record": {
    file: PLATFORM,
    find: "await this.#replay.keepCaught(step).catch(() => undefined);",
    put: "",
    killedBy: RESTS,
  },
  "a pause stops the step after the next instead of the next": {
    file: "packages/millrace/src/workflow/holds.ts",
    find: "await this.#replay.keepCaught(step).catch(() => undefined);",
    put: "",
    killedBy: RESTS,
  },
  "a sleeping branch leaves another branch's caught failure unrecorded": {
    file: "packages/millrace/src/replay/replay.ts",
    find: "this.stepOrder.unheard.length > 1 ? this.#keepBeside(heard) : undefined",
    put: "undefined",
    killedBy: RESTS,
  },
  "a caught failure is not written again with the effect that followed it": {
    file: "packages/millrace/src/replay/step-order.ts",
    find: "(this.#kept.get(failed)?.wentOn === undefined ? undefined : this.#kept.get(failed))",
    put: "this.#kept.get(failed)",
    killedBy: "test/engine/replay/kept-caught.test.ts",
  },
  "a cancel waits for a read that hangs": {
    file: "packages/millrace/src/operate/carry-out/platform-runs.ts",
    find: " && !step.reads",
    put: "",
    killedBy: READS,
  },
  "an interrupted read counts as possibly done": {
    file: "packages/millrace/src/operate/carry-out/platform-runs.ts",
    find: " || reads",
    put: "",
    killedBy: READS,
  },
  "an undo repeats a read although no effect depended on it": {
    file: "packages/millrace/src/workflow/undoing.ts",
    find: "if (!(await this.#isBehindAll(step))) return",
    put: "return",
    killedBy: READS,
  },
  "an undo waits forever for the end of code that loops": {
    file: "packages/millrace/src/workflow/undoing.ts",
    find: "      this.#hasMetAll.resolve(undefined);\n      return",
    put: "      return",
    killedBy: READS,
  },
  "an undo waits for a read that lost a race": {
    file: "packages/millrace/src/workflow/undoing.ts",
    find: "if (await this.#meetsAll().catch(() => false)) this.#hasMetAll.resolve(undefined);",
    put: "",
    killedBy: "test/engine/replay/races.test.ts",
  },
  "the refusal of an attempt also counts for its earlier attempts": {
    file: "packages/millrace/src/workflow/step-attempts.ts",
    find: "failures.isUnclear(this.label) ? asUnclear(error) : error",
    put: "error",
    killedBy: LATER,
  },
  "an undo treats a refused repeat as proof that the effect did not happen": {
    file: "packages/millrace/src/workflow/undoing.ts",
    find: "error instanceof DidNotHappen",
    put: "isDefiniteRefusal(error)",
    killedBy: LATER,
  },
  "a cleared failure is thrown again after the step failed with another error": {
    file: "packages/millrace/src/store/instances/run.ts",
    find: "WHERE c.key = m.key)",
    put: "WHERE c.key <> m.key)",
    killedBy: CAUGHT,
  },
  "a failure that occurred again remains cleared": {
    file: "packages/millrace/src/replay/history.ts",
    find: " && !failsAgain(left[name], error)",
    put: " && failsAgain !== undefined",
    killedBy: CAUGHT,
  },
  "a retry after an undo throws a cleared failure again": {
    file: "packages/millrace/src/store/instances/run.ts",
    find: "isAnew ? CLEARED : ",
    put: "isAnew && CLEARED ? null : ",
    killedBy: CAUGHT,
  },
  "a run forgets the possible effects of the previous run": {
    file: "packages/millrace/src/operate/instances/past.ts",
    find: "reopened(run, unrecorded.get(label))",
    put: "reopened(run, undefined)",
    killedBy: LATER,
  },
  "an undo ends at the last run's failure although an earlier run had reached a later effect": {
    file: "packages/millrace/src/operate/instances/past.ts",
    find: 'one.effect === "undoable"',
    put: "false",
    killedBy: LATER,
  },
});
