import type { Context, MiddlewareHandler } from "hono";
import * as z from "zod";
import { MillraceError } from "../../contract/errors.ts";
import { MAX_DELAY_SECONDS } from "../../contract/queue.ts";
import { listOf } from "../../contract/row.ts";
import { type AnyPullQueue, MAX_VISIBILITY_MS, type PullPlan, plansOf } from "../../pull/definition.ts";
import { type Leased, MAX_PULL_BATCH } from "../../pull/message.ts";
import { type PullEnv, pullObjectOf } from "../../pull/stub.ts";
import { countedCaller, lacksScope } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { operationIn } from "../operation.ts";
import { answerFailure, HttpRefusal, problemOf } from "../problem.ts";
import { ENGINE_PROBLEMS } from "../problems.ts";
import { answers, Routes } from "../router.ts";

interface PullHttpEnv {
  Bindings: HttpEnv["Bindings"] & PullEnv;
  Variables: HttpEnv["Variables"] & { plan: PullPlan };
}

/** The path prefix of Cloudflare's API, so that a client of that API changes only the host of its base URL. */
const BASE = "/client/v4";
const PATH = `${BASE}/accounts/{account_id}/queues/{queue_id}/messages` as const;
const DEFAULT_BATCH_SIZE = 5;
const MAX_SETTLED = 1000;
const MAX_ACK_BYTES = 256 * 1024;
/** An error code in the envelope of Cloudflare's API is the sum of this number and the HTTP status. */
const ERROR_CODES_FROM = 10_000;

const PROBLEMS = {
  ...ENGINE_PROBLEMS,
  queue_not_found: { status: 404, title: "No such queue", meaning: "There is no pull queue with this name.", next: "Check its spelling." },
};

const visibility = z.int().min(1).max(MAX_VISIBILITY_MS).optional();
const pullSchema = z.object({
  batch_size: z.int().min(1).max(MAX_PULL_BATCH).default(DEFAULT_BATCH_SIZE).describe("The highest number of messages in the answer."),
  visibility_timeout_ms: visibility.describe("The length of the lease. Default: the setting of the queue. At most 12 hours."),
  visibility_timeout: visibility.describe("The same, for older clients."),
});

const leaseId = z.string().min(1).max(200);
const ackSchema = z.object({
  acks: listOf({ lease_id: leaseId }).max(MAX_SETTLED).default([]),
  retries: listOf({ lease_id: leaseId, delay_seconds: z.number().min(0).max(MAX_DELAY_SECONDS).optional() })
    .max(MAX_SETTLED)
    .default([]),
});

function enveloped<Result extends z.ZodType>(description: string, result: Result) {
  const note = z.object({ code: z.int(), message: z.string() });
  return answers(description, z.object({ success: z.boolean(), errors: z.array(note), messages: z.array(z.string()), result }));
}

const LEASE_OVER = "The lease expired, or its message was settled before. It had no effect.";

/**
 * The routes of pull queues, with the paths and format of Cloudflare's API: `engineRoutes(catalog, { routes: [pullRoutes([renders])],
 * knowsCallers: ["client"] })`, or mounted at the root of any Hono app. The account in the path of such a route is the token's tenant.
 */
export function pullRoutes(queues: readonly AnyPullQueue[]): Routes<PullHttpEnv> {
  const operation = operationIn<PullHttpEnv>();
  const shared = {
    security: [{ bearer: [] }],
    middleware: authorized(plansOf(queues)),
    params: {
      account_id: z.string().max(100).describe("Your token's tenant."),
      queue_id: z.string().max(100).describe("The queue's name."),
    },
  };
  const refused = { "4XX": enveloped("Refused; see `errors`", z.null()) };
  const api = new Routes<PullHttpEnv>();
  api.onError((error, context) => answerEnveloped(error, context as unknown as Context<HttpEnv>));
  api.failures = { base: BASE, answer: answerEnveloped };
  return api.add(
    operation("post", `${PATH}/pull`, "pullMessages", undefined, {
      summary: "Lease messages of a pull queue",
      description: "Returns immediately, with an empty list if no message waits. The format equals Cloudflare's pull consumers.",
      ...shared,
      body: pullSchema,
      answer: {
        200: enveloped(
          "The leased messages",
          z.object({
            message_backlog_count: z.int(),
            messages: listOf({
              body: z.string().describe("Base64, except for the content type `text`."),
              id: z.string(),
              timestamp_ms: z.int(),
              attempts: z.int(),
              metadata: z.record(z.string(), z.string()),
              lease_id: z.string(),
            }),
          }),
        ),
        ...refused,
      },
      async run({ env, by, body: { batch_size: batchSize, visibility_timeout_ms, visibility_timeout }, context }) {
        const object = pullObjectOf(env, { queue: context.var.plan.name, tenant: by.tenantId });
        const { backlog, messages } = await object.pull({ batchSize, visibilityMs: visibility_timeout_ms ?? visibility_timeout });
        return context.json(succeeded({ message_backlog_count: backlog, messages: messages.map(view) }), 200);
      },
    }),
    operation("post", `${PATH}/ack`, "acknowledgeMessages", undefined, {
      summary: "Acknowledge or return leased messages",
      description: "An expired lease is not an error: it has no effect and is listed in `warnings` under its id.",
      ...shared,
      body: ackSchema,
      limits: { maxBytes: MAX_ACK_BYTES },
      answer: {
        200: enveloped("What was done", z.object({ ackCount: z.int(), retryCount: z.int(), warnings: z.record(z.string(), z.string()) })),
        ...refused,
      },
      async run({ env, by, body: { acks, retries }, context }) {
        const { acked, retried, over } = await pullObjectOf(env, { queue: context.var.plan.name, tenant: by.tenantId }).settle({
          acks: acks.map(({ lease_id }) => lease_id),
          retries: retries.map(({ lease_id, delay_seconds: s }) => ({
            leaseId: lease_id,
            delayMs: s === undefined ? undefined : s * 1000,
          })),
        });
        const warnings = Object.fromEntries(over.map((lease) => [lease, LEASE_OVER]));
        return context.json(succeeded({ ackCount: acked, retryCount: retried, warnings }), 200);
      },
    }),
  );
}

/** Requires a token of this tenant with the scope of the pull queue. */
function authorized(plans: ReadonlyMap<string, PullPlan>): MiddlewareHandler<PullHttpEnv> {
  return async (context, next) => {
    const caller = await countedCaller(context as unknown as Context<HttpEnv>);
    if (!caller) throw new MillraceError("unauthorized", "Send a valid token: `Authorization: Bearer mr_…`.");
    const account = context.req.param("account_id");
    if (account !== caller.tenantId) {
      const said = "The token belongs to another tenant. The account in the path must be the tenant of the token.";
      throw new MillraceError("forbidden", said);
    }
    const plan = plans.get(context.req.param("queue_id") ?? "");
    if (!plan)
      throw new HttpRefusal("queue_not_found", `There is no pull queue with this name. Pull queues: ${[...plans.keys()].join(", ")}.`);
    if (!caller.scopes.includes(plan.scope)) throw lacksScope(plan.scope);
    context.set("plan", plan);
    await next();
    context.header("cache-control", "no-store");
  };
}

function view({ id, leaseId, type, body, sentAt, attempts }: Leased) {
  return {
    body: type === "text" && typeof body === "string" ? body : Buffer.from(body as ArrayBuffer).toString("base64"),
    id,
    timestamp_ms: sentAt,
    attempts,
    metadata: { "CF-Content-Type": type, "CF-sourceMessageSource": "worker" },
    lease_id: leaseId,
  };
}

function succeeded<Result>(result: Result) {
  return { success: true, errors: [], messages: [], result };
}

function answerEnveloped(error: unknown, context: Context<HttpEnv>): Response {
  const problem = problemOf(error, PROBLEMS);
  if (problem.status === 401) context.header("www-authenticate", 'Bearer realm="millrace"');
  const errors = [{ code: ERROR_CODES_FROM + problem.status, message: `${problem.detail} (${problem.code})` }];
  const body = { success: false, errors, messages: [], result: null };
  return answerFailure(error, problem, context, { type: "application/json", body });
}
