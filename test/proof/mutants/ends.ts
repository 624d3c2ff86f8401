// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with its placeholders.
import { mutantsOf } from "./mutant.ts";

const CRASHES = "test/engine/callbacks/crashes.test.ts";
const OWED = "packages/millrace/src/callbacks/send-callback.ts";

/** Ends that are not reported, or are reported to another caller. */
export const ENDS = mutantsOf("ends", {
  "another bundle's non-retryable error is retried": {
    file: "packages/millrace/src/workflow/step-attempts.ts",
    find: "error instanceof NonRetryableError || isByName(error)",
    put: "error instanceof NonRetryableError",
    killedBy: "test/engine/replay/final-errors.test.ts",
  },
  "an error of the platform itself is caught as the error of a step": {
    file: "packages/millrace/src/workflow/platform.ts",
    find: "if (!attempts.isOutcome(told)) return",
    put: "if (false) return",
    killedBy: "test/engine/workflow/engine-reset.test.ts",
  },
  "the end of an instance is not reported after its process died": {
    file: "packages/millrace/src/keeper/keeper.ts",
    find: "portion: () => callOwed(env, elsewhere) }",
    put: "portion: () => Promise.resolve(all(0)) }",
    killedBy: CRASHES,
  },
  "a callback is recorded as stored, but is not stored": {
    file: OWED,
    find: "[...acceptanceChunks(calls).map(takeIn), noteCalled(owed)]",
    put: "[noteCalled(owed)]",
    killedBy: CRASHES,
  },
  "the callback address of a deleted tenant is called": {
    file: "packages/millrace/src/store/instances/remove.ts",
    find: "SET status = 'terminated', callback = NULL,",
    put: "SET status = 'terminated',",
    killedBy: CRASHES,
  },
  "all tenants' callbacks are signed with one secret": {
    file: "packages/millrace/src/callbacks/send-callback.ts",
    find: '["callback secret", tenantId]',
    put: '["callback secret"]',
    killedBy: "test/engine/callbacks/callbacks.test.ts",
  },
  "overdue instances are listed for every tenant": {
    file: "packages/millrace/src/inspect/instances.ts",
    find: "WHERE tenant_id = ${tenantId} AND ${IS_OVERDUE}",
    put: "WHERE ${IS_OVERDUE}",
    killedBy: "test/engine/inspect/overdue.test.ts",
  },
  "a request that waits for the end does not return at a question": {
    file: "packages/millrace/src/inspect/instances.ts",
    find: " || row.asks === 1",
    put: "",
    killedBy: "test/engine/inspect/waited-for.test.ts",
  },
});
