// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const OUTCOME = "packages/millrace/src/store/inbox/outcome.ts";
const CLAIM = "packages/millrace/src/store/inbox/claim.ts";
const RUN = "packages/millrace/src/store/instances/run.ts";

/** The fence of records: the check of token and epoch before a write. */
export const RECORDER = mutantsOf("recorder", {
  "an outcome overwrites another outcome": {
    file: OUTCOME,
    find: "WHEN millrace_inbox.state IN ('claimed', 'confirmed', 'in_doubt') AND millrace_inbox.token = excluded.token\n        AND millrace_inbox.epoch = excluded.epoch THEN 'done'",
    put: "WHEN true THEN 'done'",
    // Random programs rarely execute exactly this write twice, and a sample of the single faults seldom does.
    killedBy: "test/proof/cases.test.ts",
  },
  "an outcome is recorded under any claim's token": {
    file: OUTCOME,
    find: " AND millrace_inbox.token = excluded.token",
    put: "",
    killedBy: "test/engine/guard/guard.test.ts",
    masked: "an outcome is recorded in any epoch of an instance",
  },
  "an outcome is recorded in any epoch of an instance": {
    file: OUTCOME,
    find: " AND millrace_inbox.epoch = excluded.epoch THEN",
    put: " THEN",
    killedBy: "test/engine/guard/guard.test.ts",
    masked: "an outcome is recorded under any claim's token",
  },
  "a commit is written after the start of an undo": {
    file: OUTCOME,
    find: "OR (value->>'class' = 'commit' AND value->>'position' >= 0 AND ${isRunOver(\"value->>'instanceId'\").fragment})",
    put: "",
    killedBy: "test/engine/operate/late-commit.test.ts",
  },
  "a replay that assumes it is alone records concurrently with another": {
    file: OUTCOME,
    find: "other.updated_at >= ${row}->>'readAt'",
    put: "other.updated_at >= ${row}->>'readAt' AND ${row}->>'readAt' > 0",
    // The programs have a second replay while the first is still running, but in the same process: the second detects the first, and
    // queries the records.
    killedBy: "test/engine/recorder/shards.test.ts",
  },
  "a replay records although another replay has recorded since its read": {
    file: OUTCOME,
    find: "other.updated_at >= ${row}->>'readAt'",
    put: "other.updated_at >= ${row}->>'readAt' AND ${row}->>'readAt' = 0",
    killedBy: "test/engine/recorder/shards.test.ts",
  },
  "a replay claims although another replay has recorded since its read": {
    file: CLAIM,
    find: "other.updated_at >= ${attempt.readAt}",
    put: "other.updated_at >= ${attempt.readAt} AND false",
    killedBy: "test/engine/recorder/shards.test.ts",
  },
  "an outcome counts as recorded because of the previous generation": {
    file: "packages/millrace/src/store/inbox/read.ts",
    find: "AND generation >= $",
    put: "AND generation + 1 >= $",
    // With killed processes one of some thousands of random programs reached it: an effect undone, done again, undone again, during a
    // refused write.
    killedBy: "test/engine/operate/undo-retried.test.ts",
  },
  "an expired claim of a once effect is taken over": {
    file: CLAIM,
    find: "state = iif(${CANNOT_BE_ASKED}, 'in_doubt', 'claimed'), class",
    put: "state = 'claimed', class",
    killedBy: "test/engine/guard/doubt.test.ts",
  },
  "a restarted run hides its remaining unknown outcome": {
    file: "packages/millrace/src/store/instances/status.ts",
    find: "      'in_doubt', 'running')`);",
    put: "      'running', 'running')`);",
    killedBy: "test/engine/guard/doubt.test.ts",
  },
  "the takeover of an expired claim does not record that the upstream may have been called": {
    file: CLAIM,
    find: "repeats = max(millrace_inbox.repeats, millrace_inbox.state = 'claimed'),",
    put: "repeats = 0,",
    killedBy: "random",
  },
  "a refused record counts as the step's own failure": {
    file: "packages/millrace/src/recorder/recorder.ts",
    find: "      return this.#readBack(attempt);",
    put: "      throw error;",
    killedBy: "test/engine/guard/guard.test.ts",
  },
  "the first outcome of an instance does not reactivate its row that was recorded as dead": {
    file: "packages/millrace/src/recorder/recorder.ts",
    find: "(!standing || isAsleep(standing))",
    put: "!standing",
    killedBy: "test/engine/recorder/ends.test.ts",
  },
  "the first outcome of an instance does not reactivate its row when the response was lost": {
    file: "packages/millrace/src/recorder/recorder.ts",
    find: "(!standing || isAsleep(standing))",
    put: "standing && isAsleep(standing)",
    killedBy: "test/engine/recorder/ends.test.ts",
  },
  "an end overwrites the end of an ended instance": {
    file: RUN,
    find: "\n    AND (millrace_instances.status NOT IN ${ENDED.fragment}\n      OR (millrace_instances.status = 'errored' AND r.value->>'status' <> 'errored'))",
    put: "",
    killedBy: "test/engine/recorder/ends.test.ts",
  },
  "a late report of an earlier run is accepted": {
    file: RUN,
    find: "WHERE millrace_instances.id = r.value->>'id' AND millrace_instances.run = r.value->>'run'",
    put: "WHERE millrace_instances.id = r.value->>'id'",
    killedBy: "test/engine/recorder/ends.test.ts",
  },
});
