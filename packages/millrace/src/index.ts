// Entry point `millrace`: definitions of messages, steps, workflows, queues and consumers, and the functions that their code calls.

import { chosenName } from "./contract/chosen-name.ts";
import { retryAfterMs } from "./contract/duration.ts";
import { firstOf, issuesIn, issuesOf } from "./contract/envelope.ts";
import { codeOf, inProgress, messageOf } from "./contract/errors.ts";
import { digest, fingerprintOf, instanceId, signed } from "./contract/ids.ts";
import { assertBounded, byteLength, parseBounded } from "./contract/limits.ts";
import { nearest } from "./contract/nearest.ts";
import { beginning, characterCount } from "./contract/text.ts";
import { newTrace, nextHop, traceHeaders, traceIdOf } from "./contract/trace.ts";
import { tracedCall } from "./observe/traces/call.ts";
import { isTransient } from "./store/d1/trouble.ts";

export type { EngineEnv } from "./contract/bindings.ts";
export type { Duration } from "./contract/duration.ts";
export type { Envelope } from "./contract/envelope.ts";
export { type Issue, MillraceError, notRetryable, retryAfter, upstreamRefused } from "./contract/errors.ts";
export { logLine } from "./contract/log-line.ts";
export { type Draft, defineCommand, defineEvent } from "./contract/message.ts";
export { defineQueue } from "./contract/queue.ts";
export { sensitive } from "./contract/redact.ts";
export { type Statement, sql } from "./contract/sql.ts";
export type { TraceContext } from "./contract/trace.ts";
export { type Commit, defineStep, type EffectCall } from "./guard/step.ts";
export { type Accepted, enqueue, enqueueOne } from "./intake/accept/enqueue.ts";
export { publishEvents } from "./intake/accept/publish.ts";
export { millrace } from "./millrace.ts";
export { namedBatch } from "./store/d1/named.ts";
export { atomically, query } from "./store/d1/retry.ts";
export { defineConsumer } from "./topology/consumer.ts";
export { call, on, project, type Routed, send, sendEach, signal, start, tell } from "./topology/routes.ts";
export type { Steps } from "./workflow/steps.ts";
export { defineWorkflow, type WorkflowCall } from "./workflow/workflow.ts";

/** Functions that read errors and the responses of upstreams. */
export const errors = { codeOf, messageOf, inProgress, retryAfterMs, isTransient, issuesIn, issuesOf, firstIssue: firstOf };

/** Ids that are derived from their parts: the same parts give the same id. */
export const ids = { digest, fingerprint: fingerprintOf, instance: instanceId, signed };

/** Functions that bound and compare texts. */
export const texts = { beginning, characterCount, byteLength, chosenName, nearest, parseBounded, assertBounded };

/** Functions for W3C trace contexts. */
export const traces = { begin: newTrace, nextHop, headers: traceHeaders, idOf: traceIdOf, call: tracedCall };
