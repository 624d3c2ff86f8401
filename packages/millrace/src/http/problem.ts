import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import * as z from "zod";
import { firstOf } from "../contract/envelope.ts";
import { codeOf, type Issue, MillraceError, messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { component, listOf } from "../contract/row.ts";
import { beginning } from "../contract/text.ts";
import { isTransient } from "../store/d1/trouble.ts";
import type { HttpEnv } from "./env.ts";
import { ENGINE_PROBLEMS, type Problem, type Problems } from "./problems.ts";

/** Path of the page that explains all codes. */
export const PROBLEMS_PATH = "/problems";
/** The `Retry-After` in seconds if the database is unavailable and the error names no delay. */
const RETRY_AFTER_SECONDS = 5;
const MAX_LOGGED_CHARACTERS = 500;
const MAX_LOGGED_FRAMES = 10;

export const ProblemSchema = component("Problem", {
  type: z
    .string()
    .meta({ description: "A URI reference to the explanation of the code in this deployment.", example: typeOf("invalid_payload") }),
  title: z.string(),
  status: z.int(),
  detail: z.string().describe("The problem and the next step."),
  code: z.string(),
  retryable: z.boolean().describe("True when the same request may succeed later."),
  issues: listOf({
    path: z.string().describe("A dotted path such as `payload.keyword`, or the name of a header."),
    message: z.string(),
  }).optional(),
  did_you_mean: z.string().optional(),
  from: z.string().optional().describe("For `invalid_transition`: the current state."),
  to: z.string().optional(),
});

type Answered = z.infer<typeof ProblemSchema>;

/** A refusal at the HTTP level, with its headers. */
export class HttpRefusal extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly headers: Record<string, string> = {},
  ) {
    super(message);
  }
}

export function invalidRequest(issues: Issue[]): MillraceError {
  const said = `The request is not valid: ${firstOf(issues, "the body")}. See /openapi.json for the request schema.`;
  return new MillraceError("invalid_payload", said, { issues });
}

/** A relative URI (RFC 9457) resolves to this deployment. */
function typeOf(code: string): string {
  return `${PROBLEMS_PATH}#${code}`;
}

/** The problem document for any thrown error. The message of an error without a code is not shown. */
export function problemOf(error: unknown, problems: Problems): Answered {
  const { code, detail } = namedBy(error, problems) ?? unnamed(error);
  const { status, title, retryable = false }: Problem = problems[code] ?? ENGINE_PROBLEMS.invariant;
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

export function answerProblem(error: unknown, context: Context<HttpEnv>): Response {
  // Routes of an own Hono app have no `engineRoutes`, which set the codes.
  const problem = problemOf(error, (context.var.problems as Problems | undefined) ?? ENGINE_PROBLEMS);
  return answerFailure(error, problem, context, { type: "application/problem+json", body: problem });
}

/** Responds in a given format. Logs an error with a status of 500 or higher, and the stack frames of a bug. */
export function answerFailure(
  error: unknown,
  problem: Answered,
  context: Context<HttpEnv>,
  { type, body }: { type: string; body: object },
): Response {
  if (problem.status >= 500) {
    const { method, path } = context.req;
    const stack = problem.code === "invariant" ? framesOf(error) : undefined;
    logLine("error", { log: "api", code: problem.code, message: beginning(messageOf(error), MAX_LOGGED_CHARACTERS), method, path, stack });
  }
  // The context creates the response, because the context adds the headers that were set before the error.
  const headers = { "content-type": type, ...headersOf(error, problem) };
  return context.body(JSON.stringify(body), problem.status as ContentfulStatusCode, headers);
}

function framesOf(error: unknown): string[] {
  const { stack = "", message } = error instanceof Error ? error : new Error();
  const behind = stack.slice(stack.indexOf(message) + message.length);
  return [...behind.matchAll(FRAME)].slice(0, MAX_LOGGED_FRAMES).map(([, frame = ""]) => beginning(frame, MAX_LOGGED_CHARACTERS));
}

const FRAME = /^ {4}at ([^\n]+:\d+:\d+\)?)$/gm;

export const LIMIT_HEADER_COMPONENTS = {
  "Retry-After": { description: "Seconds to wait before the same request is sent again.", schema: { type: "integer" } },
  RateLimit: {
    description: "The limit, its remaining requests at most, and the seconds until a reset.",
    schema: { type: "string", example: '"token";r=0;t=4' },
  },
  "RateLimit-Policy": {
    description: "The limit as requests per seconds. Not sent when the platform counts.",
    schema: { type: "string", example: '"token";q=2000;w=10' },
  },
} as const;

const LIMIT_HEADERS = Object.fromEntries(
  Object.keys(LIMIT_HEADER_COMPONENTS).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
);

const content = { "application/problem+json": { schema: ProblemSchema } };

/** Documents the problems of a route by status. Adds those of every route. Under /v1, unknown parameters are `invalid_payload`. */
export function answersOfProblems(path: string, codes: readonly string[], table: Problems) {
  const all = new Set([...codes, ...(path.startsWith("/v1/") ? ["invalid_payload"] : []), "rate_limited", "unavailable", "invariant"]);
  const byStatus = Map.groupBy(all, (code) => table[code]?.status ?? 500);
  const describe = (code: string) => `\`${code}\`: ${table[code]?.title}`;
  return [...byStatus].map(
    ([status, same]) =>
      [status, { description: same.map(describe).join(" · "), ...(status === 429 && { headers: LIMIT_HEADERS }), content }] as const,
  );
}

const UNNAMED = {
  unavailable: "The database did not answer. Send the same request again in a few seconds. The same key has no second effect.",
  config_invalid:
    "The database lacks a table or a column. Apply the migrations: npx millrace migrate --remote. GET /healthz names the first missing migration.",
  invariant: "This is a bug in the server, not in your request. Report the route and the time; see the page under `type`.",
} as const;

/** SQLite's codes for wrong statements. All other errors of D1 are temporary. */
const WRONG_STATEMENT = /SQLITE_(ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG)/;

function unnamed(error: unknown): { code: string; detail: string } {
  const message = error instanceof Error ? error.message : "";
  const isOfDatabase = message.startsWith("D1_ERROR") && !WRONG_STATEMENT.test(message);
  const isTemporary = error instanceof Error && (isTransient(error) || isOfDatabase);
  const isUnmigrated = /no such (table|column)|has no column named/.test(message);
  const code = isUnmigrated ? "config_invalid" : isTemporary ? "unavailable" : "invariant";
  return { code, detail: UNNAMED[code] };
}

/** Undefined for an error without a known code. Errors from a Durable Object are plain errors with a code. */
function namedBy(error: unknown, problems: Problems): { code: string; detail: string } | undefined {
  const code = error instanceof HttpRefusal ? error.code : codeOf(error);
  return error instanceof Error && code !== undefined && Object.hasOwn(problems, code) ? { code, detail: error.message } : undefined;
}

function headersOf(error: unknown, problem: Answered): Record<string, string> {
  if (error instanceof HttpRefusal) return error.headers;
  const delayMs = error instanceof MillraceError ? error.detail.delayMs : undefined;
  if (problem.status === 503 || problem.status === 429) {
    return { "retry-after": String(delayMs === undefined ? RETRY_AFTER_SECONDS : Math.ceil(delayMs / 1000)) };
  }
  return {};
}

type AnswerFailure = (error: unknown, context: Context<HttpEnv>) => Response;

/** How a router answers a failure, for every path below `base`: also an unknown path, and an error before a route of the router runs. */
export interface Failures {
  readonly base: string;
  readonly answer: AnswerFailure;
}

/** Responds in the format of the router that owns the path, by default with problem details. */
export function answererOf(routers: readonly { failures?: Failures }[]): AnswerFailure {
  const own = routers.flatMap(({ failures }) => failures ?? []);
  return (error, context) => {
    const found = own.find(({ base }) => context.req.path.startsWith(`${base}/`));
    return (found?.answer ?? answerProblem)(error, context);
  };
}
