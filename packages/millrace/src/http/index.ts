// Entry point `millrace/http`: the engine's routes to mount, and the parts from which an app builds its own routes. The parts are grouped by
// the piece of a request or response that they read, write or document.

import { iso, isoOrNull, timestamp } from "../contract/row.ts";
import { acceptedShape, answerAccepted } from "./accepted.ts";
import { callerOf, mayStillRead } from "./auth.ts";
import { jsonSchema, mediaTypeOf, notTaken, parseWith, readBody, readText } from "./body.ts";
import { answerEvents, lastEventId, streamed, streamHeaders, streamQuery } from "./event-stream.ts";
import { idempotencyKey, replayedHeader, traceHeadersSchema, traceOf } from "./headers.ts";
import { reasoned } from "./operation.ts";
import { nameQuery, page, pageByName, pageOf, pageQuery, timeCursor, wholeNumber } from "./paging.ts";
import { invalidRequest, PROBLEMS_PATH, ProblemSchema, problemOf } from "./problem.ts";
import { ENGINE_PROBLEMS } from "./problems.ts";
import { signedText } from "./signed-text.ts";
import { github, slack, standardWebhooks, stripe } from "./webhook-schemes.ts";

export type { EngineRoutesOptions } from "./engine-routes.ts";
export type { HttpEnv } from "./env.ts";
export { engineRoutes } from "./lazy-routes.ts";
export { needs, operationIn } from "./operation.ts";
export { HttpRefusal } from "./problem.ts";
export { answers, Routes } from "./router.ts";
export { type InboundSource, inboundRoutes } from "./routes/inbound.ts";
export { answerHtml } from "./routes/problems-page.ts";
export { pullRoutes } from "./routes/pull.ts";
export { roomRoutes } from "./routes/rooms.ts";
export type { WebhookScheme } from "./webhook-schemes.ts";

/** Bodies of requests: how a route documents, reads and refuses them. */
export const bodies = {
  schema: jsonSchema,
  read: readBody,
  text: readText,
  signedText,
  parse: parseWith,
  invalid: invalidRequest,
  mediaTypeOf,
  notTaken,
  reasoned,
};

/** The response to an accepted command. */
export const acceptance = { answer: answerAccepted, shape: acceptedShape };

/** The headers `Idempotency-Key` and `Idempotency-Replayed`. */
export const idempotency = { key: idempotencyKey, replayed: replayedHeader };

/** Pages of lists: their queries, schemas and cursors. */
export const pages = { of: page, byName: pageByName, schema: pageOf, query: pageQuery, nameQuery, timeCursor, wholeNumber };

/** Times in responses. */
export const times = { iso, isoOrNull, timestamp };

/** Streams of server-sent events. */
export const streams = { answer: answerEvents, documented: streamed, lastEventId, headers: streamHeaders, query: streamQuery };

/** The trace headers of requests. */
export const traceContext = { headers: traceHeadersSchema, of: traceOf };

/** The callers of requests, and their tokens. */
export const callers = { of: callerOf, mayStillRead };

/** Problem documents: the engine's table of codes, and a function for a table that also has codes of the app. */
export const engineProblems = {
  all: ENGINE_PROBLEMS,
  of: problemOf,
  schema: ProblemSchema,
  path: PROBLEMS_PATH,
};

/** The schemes of known senders of webhooks. */
export const webhooks = { github, slack, standard: standardWebhooks, stripe };
