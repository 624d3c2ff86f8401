import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { beginning, codeOf, type ErrorCode, isTransient, MillraceError, messageOf } from "millrace";

/** What only HTTP can be refused for, beside the engine's own codes. */
type HttpCode =
  | "route_not_found"
  | "page_not_found"
  | "ledger_not_found"
  | "rules_not_found"
  | "webhook_not_found"
  | "delivery_not_found"
  | "batch_not_found"
  | "file_not_found"
  | "brand_not_found"
  | "article_not_found"
  | "contact_not_found"
  | "sync_not_found"
  | "token_not_found"
  | "signature_invalid"
  | "length_required"
  | "method_not_allowed"
  | "unsupported_media_type";
export type ProblemCode = ErrorCode | HttpCode;

/** Where the page about all of them is served. */
export const PROBLEMS_PATH = "/problems";
/** How long to stay away when the database is in trouble and named no time itself. */
const RETRY_AFTER_SECONDS = 5;
const MAX_LOGGED_CHARACTERS = 500;

/** The one table from codes to answers: status, title, and whether the same request may succeed later. */
export const PROBLEMS = {
  invalid_json: [400, "The body is not JSON", false],
  unauthorized: [401, "No valid token", false],
  forbidden: [403, "The token may not do this", false],
  signature_invalid: [401, "The signature does not match", false],
  route_not_found: [404, "No such route", false],
  page_not_found: [404, "No such page", false],
  ledger_not_found: [404, "No such ledger", false],
  rules_not_found: [404, "No such version of the rules", false],
  instance_not_found: [404, "No such instance", false],
  effect_not_found: [404, "No such effect", false],
  dead_letter_not_found: [404, "No such dead letter", false],
  webhook_not_found: [404, "No such webhook", false],
  delivery_not_found: [404, "No such delivery", false],
  batch_not_found: [404, "No such batch", false],
  file_not_found: [404, "No such file", false],
  approval_not_found: [404, "No such approval", false],
  schedule_not_found: [404, "No such schedule", false],
  brand_not_found: [404, "No such brand", false],
  article_not_found: [404, "No such article", false],
  contact_not_found: [404, "No such contact", false],
  sync_not_found: [404, "No such sync", false],
  token_not_found: [404, "No such token", false],
  unknown_message_type: [404, "No such message type", false],
  method_not_allowed: [405, "The route does not take this method", false],
  invalid_transition: [409, "Not possible in its present state", false],
  in_doubt: [409, "An effect is in doubt", false],
  lease_lost: [409, "Somebody else holds the step", true],
  length_required: [411, "The length is missing", false],
  payload_too_large: [413, "The body is too large", false],
  unsupported_media_type: [415, "The route does not take this content type", false],
  invalid_envelope: [422, "The message is not valid", false],
  invalid_payload: [422, "The request is not valid", false],
  idempotency_key_reused: [422, "The idempotency key is taken", false],
  output_too_large: [422, "The output is too large", false],
  output_not_serializable: [422, "The output is not JSON", false],
  rate_limited: [429, "Too many requests", true],
  payload_missing: [500, "A stored payload is gone", false],
  step_failed: [500, "A step failed", false],
  not_retryable: [500, "A step failed for good", false],
  nondeterministic_steps: [500, "A workflow changed its steps", false],
  config_invalid: [500, "The deployment is not configured", false],
  invariant: [500, "A bug in Millrace", false],
  answer_truncated: [502, "A model's answer was cut off", false],
  answer_refused: [502, "A model refused", false],
  answer_empty: [502, "A model answered nothing", false],
  answer_malformed: [502, "A model's answer is not what was asked for", false],
  upstream_refused: [502, "An upstream refused", true],
  retry_after: [503, "An upstream asks for patience", true],
  in_progress: [503, "An upstream is still at work", true],
  unavailable: [503, "The database is in trouble", true],
  route_timeout: [504, "What an event leads to took too long", true],
  step_timeout: [504, "A step took too long", true],
  wait_timeout: [504, "A wait took too long", true],
} as const satisfies Record<ProblemCode, readonly [status: number, title: string, retryable: boolean]>;

export const IssueSchema = z.object({
  path: z.string().openapi({ description: "Dotted, such as `payload.keyword`; or the name of a header." }),
  message: z.string(),
});

export const ProblemSchema = z
  .object({
    type: z
      .string()
      .openapi({ description: "Where this deployment explains the code: a URI reference.", example: typeOf("invalid_payload") }),
    title: z.string(),
    status: z.int(),
    detail: z.string().openapi({ description: "What happened, and what to do next." }),
    code: z.enum(Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]),
    retryable: z.boolean().openapi({ description: "True when the same request may succeed later." }),
    issues: z.array(IssueSchema).optional(),
    did_you_mean: z.string().optional(),
    from: z.string().optional().openapi({ description: "For `invalid_transition`: the present state." }),
    to: z.string().optional(),
  })
  .openapi("Problem");

type Problem = z.infer<typeof ProblemSchema>;

/** A request that HTTP itself refuses. */
export class HttpRefusal extends Error {
  constructor(
    readonly code: HttpCode,
    message: string,
    readonly headers: Record<string, string> = {},
  ) {
    super(message);
  }
}

/** The problem's type: relative (RFC 9457 allows it), so that it leads to the deployment that answered. */
function typeOf(code: ProblemCode): string {
  return `${PROBLEMS_PATH}#${code}`;
}

/** What anything thrown looks like to the caller. An error nobody named keeps its words to itself. */
export function problemOf(error: unknown): Problem {
  const { code, message: detail } = isNamed(error) ? error : unnamed(error);
  const [status, title, retryable] = PROBLEMS[code];
  const { issues, didYouMean, from, to } = error instanceof MillraceError ? error.detail : {};
  return {
    type: typeOf(code),
    title,
    status,
    detail,
    code,
    retryable,
    ...(issues && { issues }),
    ...(didYouMean && { did_you_mean: didYouMean }),
    ...(from && { from }),
    ...(to && { to }),
  };
}

/** Answers a thrown error. What is our fault is logged, by code and message only. */
export function answerProblem(error: unknown, context: Context): Response {
  const problem = problemOf(error);
  if (problem.status >= 500) {
    const { method, path } = context.req;
    console.error(
      JSON.stringify({ log: "api", code: problem.code, message: beginning(messageOf(error), MAX_LOGGED_CHARACTERS), method, path }),
    );
  }
  // Through the context, which adds the headers that whoever threw had set on it.
  return context.body(JSON.stringify(problem), problem.status as ContentfulStatusCode, {
    "content-type": "application/problem+json",
    ...headersOf(error, problem),
  });
}

/** Documents the problems a route may answer, by code. Every route may fail for reasons of ours, and be asked too often. */
export function problems(...codes: ProblemCode[]): Record<never, never> {
  const byStatus = Map.groupBy<number, ProblemCode>([...codes, "rate_limited", "unavailable", "invariant"], (code) => PROBLEMS[code][0]);
  const content = { "application/problem+json": { schema: ProblemSchema } };
  const describe = (code: ProblemCode) => `\`${code}\`: ${PROBLEMS[code][1]}`;
  return Object.fromEntries([...byStatus].map(([status, same]) => [status, { description: same.map(describe).join(" · "), content }]));
}

/** What is said for errors that nobody wrote for the caller's eyes. */
const UNNAMED = {
  unavailable: "The database did not answer. Send the same request again in a few seconds: with the same key it is the same work.",
  config_invalid: "The database lacks a table. Apply the migrations: wrangler d1 migrations apply DB.",
  invariant: "This is a bug here, not in your request. Report the route and the time as the page under `type` says.",
} as const satisfies Partial<Record<ProblemCode, string>>;

/** SQLite's words for a statement that is wrong, whenever it is sent: everything else D1 says is about the moment. */
const WRONG_STATEMENT = /SQLITE_(ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG)/;

function unnamed(error: unknown): { code: ProblemCode; message: string } {
  const code = unnamedCode(error);
  return { code, message: UNNAMED[code] };
}

function unnamedCode(error: unknown): keyof typeof UNNAMED {
  if (!(error instanceof Error)) return "invariant";
  if (error.message.includes("no such table")) return "config_invalid";
  const databaseTrouble = error.message.startsWith("D1_ERROR") && !WRONG_STATEMENT.test(error.message);
  return isTransient(error) || databaseTrouble ? "unavailable" : "invariant";
}

/** True for our own errors; the engine's also where they come from an object, as plain errors with a code. */
function isNamed(error: unknown): error is Error & { code: ProblemCode } {
  if (error instanceof HttpRefusal) return true;
  const code = codeOf(error);
  return code !== undefined && Object.hasOwn(PROBLEMS, code);
}

function headersOf(error: unknown, problem: Problem): Record<string, string> {
  if (error instanceof HttpRefusal) return error.headers;
  const delayMs = error instanceof MillraceError ? error.detail.delayMs : undefined;
  if (problem.status === 503 || problem.status === 429) {
    return { "retry-after": String(delayMs === undefined ? RETRY_AFTER_SECONDS : Math.ceil(delayMs / 1000)) };
  }
  return {};
}
