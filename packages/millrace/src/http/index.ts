// Entry point `millrace/http`: the engine's routes to mount, and the parts from which an app builds its own routes.

export type { Schema } from "../store/schema.ts";
export { acceptedAnswer, acceptedHeaders, acceptedShape, acceptedView } from "./accepted.ts";
export { BODY_REFUSALS, reasoned } from "./actions.ts";
export { callerOf, mayStillRead, needs } from "./auth.ts";
export { jsonBody, jsonSchema, parseWith, readBody, readText } from "./body.ts";
export type { EngineRoutesOptions } from "./engine-routes.ts";
export type { HttpEnv } from "./env.ts";
export { answerEvents, type Followed, heardLast, streamed, streamHeaders, streamQuery } from "./event-stream.ts";
export { idempotencyKey, keyHeader, replayedHeader, replayedHeaderSchema } from "./idempotency-key.ts";
export { invalidRequest } from "./invalid-request.ts";
export { engineRoutes } from "./lazy-routes.ts";
export { mediaTypeOf, notTaken } from "./media-type.ts";
export type { Group } from "./openapi-groups.ts";
export { answerHtml } from "./page-html.ts";
export { nameQuery, page, pageByName, pageOf, pageQuery, timeCursor, wholeNumber } from "./paging.ts";
export { documentsProblems, HttpRefusal, PROBLEMS_PATH, ProblemSchema, problemOf } from "./problem.ts";
export { ENGINE_PROBLEMS } from "./problems.ts";
export { answers } from "./responses.ts";
export { createRoute, Routes } from "./router.ts";
export { type InboundMessage, type InboundSource, type InboundWebhook, inboundRoutes } from "./routes/inbound.ts";
export { pullRoutes } from "./routes/pull.ts";
export { roomRoutes } from "./routes/rooms.ts";
export { signedText } from "./signed-text.ts";
export { iso, isoOrNull, timestamp } from "./time.ts";
export { traceHeadersSchema, traceOf } from "./trace.ts";
export { refuseUnreadable } from "./unknown-parameters.ts";
export { github, type SignedRequest, slack, standardWebhooks, stripe, type WebhookScheme } from "./webhook-schemes.ts";
