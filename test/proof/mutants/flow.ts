import { mutantsOf } from "./mutant.ts";

const SCHEMA = "packages/millrace/migrations/0001_millrace.sql";

/** Runs of a key that start too early, too often or never. */
export const FLOW = mutantsOf("flow", {
  "a failed run keeps its slot": {
    file: SCHEMA,
    find: "NEW.slot IS NOT NULL AND NEW.status NOT IN ('running', 'waiting', 'paused', 'in_doubt')",
    put: "NEW.slot IS NOT NULL AND NEW.status NOT IN ('running', 'waiting', 'paused', 'in_doubt', 'errored')",
    killedBy: "random",
  },
  "a slot is given while it is occupied": {
    file: SCHEMA,
    find: "'in_doubt') BEGIN UPDATE millrace_instances SET slot_turn = NULL, updated_at",
    put: "'in_doubt') BEGIN UPDATE millrace_instances SET slot_turn = NULL WHERE slot = NEW.slot AND status = 'accepted'; UPDATE millrace_instances SET slot_turn = NULL, updated_at",
    killedBy: "random",
  },
  "the keeper creates a paused run that has no slot": {
    file: "packages/millrace/src/keeper/open-instances.ts",
    find: "OR (status = 'paused' AND slot_turn IS NOT NULL)",
    put: "",
    killedBy: "test/engine/intake/concurrency.test.ts",
  },
  "a run starts by its message although it waits for a slot": {
    file: "packages/millrace/src/store/instances/accept.ts",
    find: "AND slot_turn IS NULL AND coalesce(due_at, 0)",
    put: "AND coalesce(due_at, 0)",
    killedBy: "random",
  },
  "a replaced command starts too": {
    file: SCHEMA,
    find: "SET status = 'skipped', updated_at",
    put: "SET status = status, updated_at",
    killedBy: "random",
  },
  "a throttled command starts with the command before it": {
    file: SCHEMA,
    find: "OFFSET (NEW.flow->>'starts') - 1",
    put: "OFFSET (NEW.flow->>'starts')",
    killedBy: "random",
  },
});
