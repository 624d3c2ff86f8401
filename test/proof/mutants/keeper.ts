import { mutantsOf } from "./mutant.ts";

const CHECK = "packages/millrace/src/keeper/check-instances.ts";

/** Repairs that do not happen. */
export const KEEPER = mutantsOf("keeper", {
  "an accepted but unsent command is never started": {
    file: CHECK,
    find: 'return row.early_ms > 0 || (!row.overtakes && stillInQueue(row, backlog, standsStill)) ? "leave" : "start";',
    put: 'return "leave";',
    // Few random programs reach it: only those with a first message that the queue refuses, and a sender that has no copy.
    killedBy: "test/engine/intake/acceptance.test.ts",
  },
  "the burst of one tenant delays the commands of other tenants": {
    file: "packages/millrace/src/keeper/open-instances.ts",
    find: "turn FROM tenants WHERE at <=",
    put: "turn FROM (SELECT * FROM tenants ORDER BY at LIMIT 1) WHERE at <=",
    killedBy: "test/engine/keeper/fair.test.ts",
  },
  "an instance that the platform has lost is not created again": {
    file: CHECK,
    find: 'return UNDER_WAY.has(row.status) ? "start" : "settled";',
    put: 'return "settled";',
    killedBy: "test/engine/intake/intake.test.ts",
  },
  "a run that the platform itself has ended is recorded as failed": {
    file: CHECK,
    find: "if (instance === null || isOver(row) || !isItsOwn) return failure(row, said);",
    put: "return failure(row, said);",
    killedBy: "test/engine/workflow/engine-reset.test.ts",
  },
  "the keeper does not record the end of an undo that was not reported": {
    file: CHECK,
    find: 'if (row.undo !== null) return { status: "terminated", error: null };',
    put: 'return "seen";',
    killedBy: "test/engine/operate/undo-crashes.test.ts",
  },
  "an operator's promised action is not executed later": {
    file: "packages/millrace/src/keeper/keeper.ts",
    find: "portion: () => applyOpenActions(env, elsewhere) }",
    put: "portion: () => Promise.resolve(all(0)) }",
    // Requires a process that dies between a promised action and its execution.
    killedBy: "test/engine/guard/guard.test.ts",
  },
});
