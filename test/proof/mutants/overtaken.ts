// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const ENDS = "packages/millrace/src/store/instances/run.ts";
const INBOX = "packages/millrace/src/replay/inbox.ts";
const killedBy = "test/engine/replay/overtaken.test.ts";

/** Writes of replays that are still alive beside another replay or another run. No program has such a replay. */
export const OVERTAKEN = mutantsOf("guard", {
  "an overtaken replay ends its run": {
    file: ENDS,
    find: 'AND NOT ${IS_CLOSED.fragment} AND NOT ${isOvertaken("r.value->>\'id\'", "r.value").fragment}',
    put: "AND NOT ${IS_CLOSED.fragment}",
    killedBy,
  },
  "an overtaken replay ends its run before a step that the other replay has recorded": {
    file: INBOX,
    find: "isBehind && this.stepOrder.uncalled !== undefined ? this.#overtake() : isBehind",
    put: "isBehind",
    killedBy,
  },
  "an operator's answer hides the other replay from the end of an overtaken replay": {
    file: "packages/millrace/src/store/inbox/outcome.ts",
    find: "coalesce(${row}->>'given', '')",
    put: "'operator'",
    killedBy,
  },
  "an operator's answer hides the other replay from the claim of an overtaken replay": {
    file: "packages/millrace/src/store/inbox/claim.ts",
    find: '${attempt.given ?? ""}',
    put: "'operator'",
    killedBy,
  },
  "a refused success of an overtaken replay suppresses the failure in the same batch": {
    file: "packages/millrace/src/recorder/recorder.ts",
    find: "apart: { what: end.id, by: `${end.replay} ${end.status}` },",
    put: "",
    killedBy: "test/engine/recorder/ends.test.ts",
  },
  "an overtaken replay stores a failure that it caught": {
    file: ENDS,
    find: "AND run = r.value->>'run' AND NOT ${isOvertaken(\"r.value->>'id'\", \"r.value\").fragment}",
    put: "AND run = r.value->>'run'",
    killedBy,
  },
  "a replay stores a failure that it caught for the next run": {
    file: ENDS,
    find: "AND run = r.value->>'run' AND NOT",
    put: "AND NOT",
    killedBy,
  },
  "a first replay ends the run that an operator has begun meanwhile": {
    file: INBOX,
    find: "if (this.#isFirst) run.noteFirst();",
    put: "",
    killedBy,
  },
  "an older replay completes a run that a newer replay has reported as failed": {
    file: ENDS,
    find: 'AND NOT coalesce(${beganAt("spent")} > ${beganAt("r.value->>\'spent\'")}, 0)',
    put: "",
    killedBy,
  },
  "a replay continues after another replay has completed the run": {
    file: "packages/millrace/src/replay/run-state.ts",
    find: 'return this.#complete || this.#standing?.status === "complete";',
    put: "return this.#complete;",
    killedBy,
  },
  "a commit is written after another replay has completed the run": {
    file: "packages/millrace/src/store/actions.ts",
    find: "(i.status = 'complete' OR a.restarted_at IS NOT NULL)",
    put: "a.restarted_at IS NOT NULL",
    killedBy,
  },
  "a replay of an earlier run ends the turn of its lane": {
    file: "packages/millrace/src/workflow/entrypoint.ts",
    find: "if (!isRecorded && !(await replay.run.isAt(status))) return;",
    put: "",
    killedBy,
  },
  "a replay waits or asks although another run has begun": {
    file: "packages/millrace/src/store/instances/wait.ts",
    find: "(status = 'paused' OR run <> ${run})",
    put: "(status = 'paused' OR run < ${run})",
    killedBy,
  },
  "all replays of a child store their large result in one place": {
    file: "packages/millrace/src/guard/result.ts",
    find: 'digest("child", child.id, String(child.run), attemptToken())',
    put: 'digest("child", child.id, String(child.run))',
    killedBy,
  },
  "the next run does not learn that an effect failed after the end of the code": {
    file: "packages/millrace/src/replay/caught.ts",
    find: "?? effectOf(label) ??",
    put: "??",
    killedBy: "test/engine/operate/undo-unheard.test.ts",
  },
});
