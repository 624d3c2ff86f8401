import { MillraceError } from "millrace";
import { describe, expect, it } from "vitest";
import {
  asUnavailable,
  comeBackMs,
  isAboutStep,
  isInfrastructure,
  type Trouble,
  troubleOf,
} from "../../../../packages/millrace/src/store/d1/trouble.ts";

/** Errors that the platform has returned, or that its documentation lists. */
const SAID: readonly [Trouble, string][] = [
  ["transient", "D1_ERROR: Network connection lost."],
  ["transient", "Network connection lost."],
  ["transient", "D1_ERROR: D1 DB reset because its code was updated."],
  ["transient", "D1_ERROR: Internal error in D1 DB storage caused object to be reset."],
  ["transient", "D1_ERROR: Internal error while starting up D1 DB storage caused object to be reset."],
  ["transient", "D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node."],
  ["transient", "D1_ERROR: Can't read from request stream because client disconnected."],
  ["transient", "D1_ERROR: Connection closed: this D1 DB instance is no longer active. Reconnect or retry."],
  ["transient", "Durable Object reset because its code was updated."],
  ["transient", "The Durable Object's code has been updated, this version can no longer access storage."],
  ["transient", "Cannot access storage because object has moved to a different machine."],
  ["transient", "internal error; reference = 0123456789abcdef"],
  ["transient", "D1_ERROR: database is locked: SQLITE_BUSY"],
  ["transient", "Queue sendBatch failed: Bad Gateway"],
  ["overloaded", "D1_ERROR: D1 DB is overloaded. Requests queued for too long."],
  ["overloaded", "D1_ERROR: D1 DB is overloaded. Too many requests queued."],
  ["overloaded", "D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset."],
  ["overloaded", "Durable Object storage operation exceeded timeout which caused object to be reset."],
  ["overloaded", "D1_ERROR: D1 DB exceeded its memory limit and was reset."],
  ["overloaded", "D1_ERROR: D1 DB exceeded its CPU time limit and was reset."],
  ["overloaded", "Durable Object is overloaded. Too many requests for the same object within a 10 second window."],
  ["overloaded", "Your account is generating too much load on Durable Objects. Please back off and try again later."],
  ["overloaded", "Queue sendBatch failed: Too Many Requests"],
  ["overloaded", "put: Reduce your concurrent request rate for the same object. (10058)"],
  ["unavailable", "D1_ERROR: Currently processing a long-running export."],
  ["unavailable", "D1_ERROR: Currently processing a long-running import."],
  ["unavailable", "D1_ERROR: Your account has exceeded D1's free tier daily row write limit."],
  ["unavailable", "D1_ERROR: Exceeded maximum DB size."],
  ["fatal", "D1_ERROR: NOT NULL constraint failed: millrace_inbox.state: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_NOTNULL)"],
  [
    "fatal",
    "D1_ERROR: the account is overloaded, try again after its daily limit: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_TRIGGER)",
  ],
  ["fatal", 'D1_ERROR: near "SELEC": syntax error at offset 0: SQLITE_ERROR'],
  ["fatal", "D1_ERROR: string or blob too big: SQLITE_TOOBIG"],
  ["fatal", "D1_TYPE_ERROR: Type 'undefined' not supported for value 'undefined'"],
  ["fatal", "Cannot read properties of undefined (reading 'id')"],
];

describe("R02 each error of the platform has its defined reaction: refuse, retry, or retry later", () => {
  it.each(SAID)("%s: %s", (trouble, message) => {
    expect(troubleOf(new Error(message))).toBe(trouble);
  });

  it("R02 the flags retryable and overloaded of a platform error are used like its text, and overloaded takes precedence", () => {
    expect(troubleOf(Object.assign(new Error("?"), { retryable: true }))).toBe("transient");
    expect(troubleOf(Object.assign(new Error("Network connection lost."), { overloaded: true, retryable: true }))).toBe("overloaded");
    expect(troubleOf("thrown text")).toBe("fatal");
  });

  it("R02 a database error becomes one error with the time to retry, and an error of the caller's statement is thrown unchanged", () => {
    const told = asUnavailable(new Error("D1_ERROR: Currently processing a long-running export."), "The database");
    expect(told).toMatchObject({ code: "unavailable", detail: { delayMs: 30_000 } });
    expect(asUnavailable(told, "The recorder")).toBe(told);
    expect(comeBackMs(new MillraceError("unavailable", "Later.", { delayMs: 1234 }))).toBe(1234);
    const own = new Error("D1_ERROR: UNIQUE constraint failed: SQLITE_CONSTRAINT");
    expect(asUnavailable(own, "The database")).toBe(own);
  });
});

describe("W34 an error", () => {
  it.each([
    ["Error", "Durable Object reset because its code was updated."],
    ["Error", "Aborting engine: Grace period complete"],
    ["Error", "Aborting engine: Value is not serialisable"],
    ["Error", "Network connection lost."],
    ["Error", "internal error; reference = 4s8du2tq9b7v"],
    ["WorkflowInternalError", "Attempt failed due to internal workflows error"],
    ["Error", "WorkflowInternalError: Storage failure for charge-1 due to internal error."],
    ["NonRetryableDelayError", 'The delay function for step "charge-1" threw an error'],
  ])("an error is classified as the platform's own: %s: %s", (name, message) => {
    const error = Object.assign(new Error(message), { name });
    expect([isInfrastructure(error), isAboutStep(error)]).toEqual([true, false]);
  });

  it.each([
    ["WorkflowTimeoutError", "Execution timed out after 600000ms"],
    ["WorkflowInternalError", "Step big-1 output is too large. Maximum allowed size is 1MiB."],
    ["WorkflowFatalError", 'Value returned from step "big" is not serialisable'],
    ["WorkflowFatalError", "The limit of 10000 steps has been reached. This limit can be changed in your worker configuration."],
    ["WorkflowFatalError", 'Step config for "a" is in a invalid format.'],
    ["Error", "Worker exceeded CPU time limit."],
  ])("an error is classified as the step's: %s: %s", (name, message) => {
    const error = Object.assign(new Error(message), { name });
    expect([isInfrastructure(error), isAboutStep(error)]).toEqual([false, true]);
  });

  it("an engine error with a code, or an error with any other text, is classified as neither the platform's nor the step's", () => {
    const others = [new MillraceError("unavailable", "Network connection lost."), new Error("The card was declined."), "thrown text"];
    expect(others.map((one) => [isInfrastructure(one), isAboutStep(one)])).toEqual(others.map(() => [false, false]));
  });
});
