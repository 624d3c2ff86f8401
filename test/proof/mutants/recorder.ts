// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const OUTCOME = "packages/millrace/src/store/inbox/outcome.ts";
const CLAIM = "packages/millrace/src/store/inbox/claim.ts";
const RUN = "packages/millrace/src/store/instances/run.ts";

/** The fence of records. */
export const RECORDER = mutantsOf("recorder", {
  "an outcome is recorded over another": {
    file: OUTCOME,
    find: "WHEN millrace_inbox.state IN ('claimed', 'confirmed', 'in_doubt') AND millrace_inbox.token = excluded.token\n        AND millrace_inbox.epoch = excluded.epoch THEN 'done'",
    put: "WHEN true THEN 'done'",
    // Random programs rarely meet just this write made twice, and a sample of the single faults seldom does.
    killedBy: "test/proof/cases.test.ts",
  },
  "an outcome is recorded for any token": {
    file: OUTCOME,
    find: " AND millrace_inbox.token = excluded.token",
    put: "",
    killedBy: "test/engine/guard/guard.test.ts",
    masked: "an outcome is recorded for any epoch",
  },
  "an outcome is recorded for any epoch": {
    file: OUTCOME,
    find: " AND millrace_inbox.epoch = excluded.epoch THEN",
    put: " THEN",
    killedBy: "test/engine/guard/guard.test.ts",
    masked: "an outcome is recorded for any token",
  },
  "a commit is written behind the beginning of an undo": {
    file: OUTCOME,
    find: "      OR (value->>'class' = 'commit' AND value->>'position' >= 0 AND ${isUndoBegun(\"value->>'instanceId'\").fragment})",
    put: "",
    killedBy: "test/engine/operate/late-commit.test.ts",
  },
  "a pass that believes to be alone records beside another": {
    file: OUTCOME,
    find: "WHERE other.instance_id = value->>'instanceId' AND substr(other.token, 1, 8) <> value->>'aloneAs')",
    put: "WHERE false)",
    // The programs have a second replay beside the first that lives, but in the same process: it detects the first, and queries.
    killedBy: "test/engine/recorder/shards.test.ts",
  },
  "an outcome is taken for recorded because of the generation before": {
    file: "packages/millrace/src/store/inbox/read.ts",
    find: "AND generation >= $",
    put: "AND generation + 1 >= $",
    // Over killed processes a random program came by it once in thousands: an effect undone, done again, undone again, beside a refused
    // write.
    killedBy: "test/engine/operate/undo-retried.test.ts",
  },
  "a once claim that ran out is taken over": {
    file: CLAIM,
    find: "state = iif(${CANNOT_BE_ASKED}, 'in_doubt', 'claimed'), class",
    put: "state = 'claimed', class",
    killedBy: "test/engine/guard/doubt.test.ts",
  },
  "a run that lives again hides the doubt that was left in it": {
    file: "packages/millrace/src/store/instances/status.ts",
    find: "      'in_doubt', 'running')`);",
    put: "      'running', 'running')`);",
    killedBy: "test/engine/guard/doubt.test.ts",
  },
  "a takeover does not remember that the upstream may have been reached": {
    file: CLAIM,
    find: "repeats = max(millrace_inbox.repeats, millrace_inbox.state = 'claimed'),",
    put: "repeats = 0,",
    killedBy: "random",
  },
  "a refusal to record is the step's own failure": {
    file: "packages/millrace/src/recorder/recorder.ts",
    find: "      return this.#readBack(attempt);",
    put: "      throw error;",
    killedBy: "test/engine/guard/guard.test.ts",
  },
  "a first outcome wakes no row that was believed dead": {
    file: "packages/millrace/src/recorder/recorder.ts",
    find: "(!standing || isAsleep(standing))",
    put: "!standing",
    killedBy: "test/engine/recorder/ends.test.ts",
  },
  "a first outcome whose answer was lost wakes nothing": {
    file: "packages/millrace/src/recorder/recorder.ts",
    find: "(!standing || isAsleep(standing))",
    put: "standing && isAsleep(standing)",
    killedBy: "test/engine/recorder/ends.test.ts",
  },
  "an end is written over an ended instance": {
    file: RUN,
    find: "\n    AND (millrace_instances.status NOT IN ${ENDED.fragment}\n      OR (millrace_instances.status = 'errored' AND r.value->>'status' <> 'errored'))",
    put: "",
    killedBy: "test/engine/recorder/ends.test.ts",
  },
  "a late word of an earlier run is believed": {
    file: RUN,
    find: "WHERE millrace_instances.id = r.value->>'id' AND millrace_instances.run = r.value->>'run'",
    put: "WHERE millrace_instances.id = r.value->>'id'",
    killedBy: "test/engine/recorder/ends.test.ts",
  },
});
