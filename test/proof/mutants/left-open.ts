import { mutantsOf } from "./mutant.ts";

const PLATFORM = "packages/millrace/src/workflow/platform.ts";
const RESTS = "test/engine/operate/caught-before-rest.test.ts";
const LATER = "test/engine/operate/undo-refused-later.test.ts";
const READS = "test/engine/operate/cancel-reading.test.ts";

/** The knowledge of an undo and of dry runs about effects that failed without a record. */
export const LEFT_OPEN = mutantsOf("operators", {
  "a caught failure without a record is left alone by an undo": {
    file: "packages/millrace/src/workflow/left-open.ts",
    find: "failed || cutOff.has(label)",
    put: "cutOff.has(label)",
    killedBy: "test/engine/operate/caught-unrecorded.test.ts",
  },
  "a run with failures without a record only cannot be undone": {
    file: "packages/millrace/src/store/instances/undoable.ts",
    find: "(millrace_instances.undo IS NULL AND",
    put: "(false AND",
    killedBy: "test/engine/operate/caught-unrecorded.test.ts",
  },
  "a lookup that was caught is said to run": {
    file: "packages/millrace/src/operate/instances/retry.ts",
    find: '(state === "failed" || state === "claimed") && caught',
    put: 'state === "failed" && caught',
    killedBy: "test/engine/operate/caught-unrecorded.test.ts",
  },
  "an operator cannot have an undo leave alone an effect that it cannot repeat": {
    file: "packages/millrace/src/operate/instances/skip-in-undo.ts",
    find: " || (await unrecorded(env, instance)).has(label)",
    put: "",
    killedBy: "test/engine/operate/caught-unrecorded.test.ts",
  },
  "a sleep begins behind a caught failure that nothing on record says": {
    file: PLATFORM,
    find: "await this.reading(step, () => this.#pass.keepCaught(step));",
    put: "",
    killedBy: RESTS,
  },
  "a back-off begins behind one": {
    file: PLATFORM,
    find: "await this.#pass.keepCaught(step).catch(() => undefined);",
    put: "",
    killedBy: RESTS,
  },
  "a pause holds the step after the next": {
    file: "packages/millrace/src/workflow/holds.ts",
    find: "await this.#pass.keepCaught(step).catch(() => undefined);",
    put: "",
    killedBy: RESTS,
  },
  "a sleeping branch leaves another's caught failure unrecorded": {
    file: "packages/millrace/src/pass/pass.ts",
    find: "this.course.unheard.length > 1 ? this.#keepBeside(heard) : undefined",
    put: "undefined",
    killedBy: RESTS,
  },
  "the record kept before a sleep lacks the effect after it": {
    file: "packages/millrace/src/pass/course.ts",
    find: "(this.#kept.get(failed)?.wentOn === undefined ? undefined : this.#kept.get(failed))",
    put: "this.#kept.get(failed)",
    killedBy: "test/engine/pass/kept-caught.test.ts",
  },
  "a cancel waits for a read that hangs": {
    file: "packages/millrace/src/operate/carry-out/end-run.ts",
    find: " && !step.reads",
    put: "",
    killedBy: READS,
  },
  "a read that was cut off may have happened": {
    file: "packages/millrace/src/operate/carry-out/cut-off.ts",
    find: " || reads",
    put: "",
    killedBy: READS,
  },
  "an undo reads again though nothing was done behind that": {
    file: "packages/millrace/src/workflow/undoing.ts",
    find: "if (!(await this.#isBehindAll(step))) return",
    put: "return",
    killedBy: READS,
  },
  "an undo waits for the end of code that goes round in a circle": {
    file: "packages/millrace/src/workflow/undoing.ts",
    find: "this.#hasMetAll.resolve(undefined);",
    put: "",
    killedBy: READS,
  },
  "a refusal counts for the tries before it": {
    file: "packages/millrace/src/workflow/step-attempts.ts",
    find: "failures.isUnclear(this.label) ? asUnclear(error) : error",
    put: "error",
    killedBy: LATER,
  },
  "an undo takes a refusal to do it once more for word that it did not happen": {
    file: "packages/millrace/src/workflow/undoing.ts",
    find: "error instanceof DidNotHappen",
    put: "isDefiniteRefusal(error)",
    killedBy: LATER,
  },
  "a run forgets the possible effects of the run before": {
    file: "packages/millrace/src/operate/instances/left.ts",
    find: "reopened(run, known.get(label))",
    put: "reopened(run, undefined)",
    killedBy: LATER,
  },
  "an undo goes the way of a run that came less far": {
    file: "packages/millrace/src/operate/instances/left.ts",
    find: 'one.effect === "undoable"',
    put: "false",
    killedBy: LATER,
  },
});
