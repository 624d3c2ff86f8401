// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with its placeholders.
import { mutantsOf } from "./mutant.ts";

const CRASHES = "test/engine/callbacks/crashes.test.ts";
const OWED = "packages/millrace/src/callbacks/owed.ts";

/** Ends that are not reported, or that reach another caller. */
export const ENDS = mutantsOf("ends", {
  "another bundle's error that ends a step at once is retried": {
    file: "packages/millrace/src/workflow/step-error.ts",
    find: "error instanceof NonRetryableError || isByName(error)",
    put: "error instanceof NonRetryableError",
    killedBy: "test/engine/pass/final-errors.test.ts",
  },
  "an error of the platform itself is caught as a step's": {
    file: "packages/millrace/src/workflow/platform.ts",
    find: "if (!attempts.isOutcome(told)) return",
    put: "if (false) return",
    killedBy: "test/engine/workflow/engine-reset.test.ts",
  },
  "an end whose process died is not reported": {
    file: "packages/millrace/src/keeper/keeper.ts",
    find: "portion: () => callOwed(env, elsewhere) }",
    put: "portion: () => Promise.resolve(all(0)) }",
    killedBy: CRASHES,
  },
  "a call is noted as kept, and is not": {
    file: OWED,
    find: "[...acceptanceChunks(calls).map(takeIn), noteCalled(owed)]",
    put: "[noteCalled(owed)]",
    killedBy: CRASHES,
  },
  "a deleted tenant's address is called": {
    file: "packages/millrace/src/store/instances/remove.ts",
    find: "SET status = 'terminated', callback = NULL,",
    put: "SET status = 'terminated',",
    killedBy: CRASHES,
  },
  "all tenants' callbacks are signed with one secret": {
    file: "packages/millrace/src/callbacks/secret.ts",
    find: '["callback secret", tenantId]',
    put: '["callback secret"]',
    killedBy: "test/engine/callbacks/callbacks.test.ts",
  },
  "overdue instances are listed for every tenant": {
    file: "packages/millrace/src/inspect/instances.ts",
    find: "WHERE tenant_id = ${by.tenantId} AND ${IS_OVERDUE}",
    put: "WHERE ${IS_OVERDUE}",
    killedBy: "test/engine/inspect/overdue.test.ts",
  },
  "an answer that waits does not see a question": {
    file: "packages/millrace/src/inspect/settled.ts",
    find: " || row.asks === 1",
    put: "",
    killedBy: "test/engine/inspect/waited-for.test.ts",
  },
});
