import { stateEvents, texts } from "millrace";
import { answers, bodies, createRoute, idempotency, needs, Routes, times } from "millrace/http";
import type { Catalog } from "millrace/worker";
import * as z from "zod";
import { BudgetSet, isCeiling } from "../messages/budgets.ts";
import type { BudgetState } from "../systems/facts/derived/budget.ts";
import { BUDGET_LIMITS, budgetOf, canSpend, setLimit } from "../systems/facts/derived/budgets.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

const { least, usual, most } = BUDGET_LIMITS.holdSeconds;
const cents = z.int().min(0);
const remaining_cents = z.int().meta({ description: "The largest amount of a hold that can be granted now." });

const BudgetSchema = z
  .object({
    account: z.string(),
    limit_cents: z
      .int()
      .nullable()
      .meta({ description: "The limit of the account; null until a limit is set. No hold is granted without a limit." }),
    spent_cents: z.int().meta({ description: "The sum of all charges that have arrived." }),
    held_cents: z.int().meta({ description: "The sum of the holds that are granted, and neither charged, released nor expired." }),
    remaining_cents,
    over_cents: z.int().meta({ description: "The excess of the spent and held amounts over the limit." }),
    limit_set_by: z.string().nullable(),
    limit_set_at: times.timestamp.nullable(),
    bytes: z.int().meta({ description: "The size of the budget's storage. The platform's limit is 10 GB." }),
  })
  .meta({ id: "Budget" });

const AnswerSchema = z
  .object({
    granted: z.boolean(),
    hold: z.string().nullable().meta({ description: "Send the id as `hold` in the outcome or the charge that uses the hold." }),
    expires_at: times.timestamp.nullable().meta({ description: "The time when the hold expires; null if its charge has arrived." }),
    replayed: z
      .boolean()
      .meta({ description: "True if this hold was granted to an earlier request with the same key: no further amount is held." }),
    reason: z.enum(["no_limit", "not_enough"]).nullable().meta({ description: "The reason why the hold was not granted." }),
    remaining_cents,
  })
  .meta({ id: "BudgetAnswer" });

const ReleasedSchema = z
  .object({
    released: z.boolean().meta({ description: "True if this request released the hold." }),
    state: z.enum(["held", "settled", "released", "expired", "unknown"]),
    remaining_cents,
  })
  .meta({ id: "ReleasedHold" });

const limitSchema = z.strictObject({ limit_cents: cents.max(BUDGET_LIMITS.limitCents) });
const askSchema = z.strictObject({
  amount_cents: cents.max(BUDGET_LIMITS.askCents),
  expires_in_seconds: z
    .int()
    .min(least)
    .max(most)
    .default(usual)
    .meta({ description: "The duration of the hold: default one day, at most 30 days." }),
});

const account = texts.chosenName(190);
const PATH = "/v1/budgets/{account}";

const put = createRoute({
  method: "put",
  path: PATH,
  operationId: "putBudget",
  command: "budgets put",
  summary: "Set the limit of an account",
  description:
    "A limit below the spent and held amount is accepted. New holds are refused while the spent and held amount exceeds the limit.",
  ...needs("operate"),
  request: { params: z.object({ account }), body: bodies.json(limitSchema) },
  responses: { 200: answers("The budget", BudgetSchema), ...problems(...bodies.refusals, "invalid_transition") },
});

const show = createRoute({
  method: "get",
  path: PATH,
  operationId: "getBudget",
  command: "budgets show",
  summary: "Get the budget of an account",
  description: "Returns the limit, the held and the spent amount of the account.",
  ...needs("read"),
  request: { params: z.object({ account }) },
  responses: {
    200: answers("The current budget", BudgetSchema),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const ask = createRoute({
  method: "post",
  path: `${PATH}/asks`,
  operationId: "askBudget",
  command: "budgets ask",
  summary: "Request a hold on a budget",
  description: [
    "Grants a hold if the spent amount, the unexpired holds and the new hold are within the limit at that moment.",
    "The idempotency key identifies the payment. A repeated request holds no further amount until the hold was released or has expired; then it is a new request. A refused hold is not recorded.",
  ].join("\n\n"),
  ...needs("enqueue"),
  request: {
    params: z.object({ account }),
    headers: z.object(idempotency.keyHeader("The key is required: it identifies the payment.")),
    body: bodies.json(askSchema),
  },
  responses: {
    200: { ...answers("The hold was granted, or refused for the given reason", AnswerSchema), headers: idempotency.replayedSchema },
    ...problems(...bodies.refusals, "idempotency_key_reused"),
  },
});

const release = createRoute({
  method: "delete",
  path: `${PATH}/holds/{hold}`,
  operationId: "releaseHold",
  command: "budgets release",
  summary: "Release a hold",
  description: "The release of a hold that has ended or never existed is not an error; see `state`.",
  ...needs("enqueue"),
  request: { params: z.object({ account, hold: z.string().max(200) }) },
  responses: { 200: answers("The state of the hold", ReleasedSchema), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

export function budgets(catalog: Catalog) {
  return new Routes<ApiEnv>()
    .openapi(put, async ({ env, req, var: { caller }, json }) => {
      const { account } = req.valid("param");
      const { limit_cents } = await bodies.read(req, limitSchema);
      const set = await setLimit(env, caller, account, limit_cents);
      if (isCeiling(account)) {
        const event = { type: BudgetSet.type, payload: { account, limit_cents }, idempotencyKey: crypto.randomUUID() };
        await stateEvents(env, catalog, { tenantId: caller.tenantId, source: "api" }, [event]);
      }
      return json(budgetView(account, set), 200);
    })
    .openapi(show, async ({ env, req, var: { caller }, json }) => {
      const { account } = req.valid("param");
      return json(budgetView(account, await budgetOf(env, caller.tenantId, account).state()), 200);
    })
    .openapi(ask, async ({ env, req, var: { caller }, json }) => {
      const key = idempotency.key(req.header("idempotency-key"));
      if (key === undefined) throw bodies.invalid([{ path: "Idempotency-Key", message: "is missing: name the purpose of the amount" }]);
      const asked = await bodies.read(req, askSchema);
      const answer = await canSpend(env, caller.tenantId, req.valid("param").account, { key, ...asked });
      return json(answer, 200, idempotency.replayed(answer));
    })
    .openapi(release, async ({ env, req, var: { caller }, json }) => {
      const { account, hold } = req.valid("param");
      return json(await budgetOf(env, caller.tenantId, account).release(hold), 200);
    });
}

function budgetView(account: string, { limit_set_at, ...state }: BudgetState): z.infer<typeof BudgetSchema> {
  return { account, ...state, limit_set_at: times.isoOrNull(limit_set_at) };
}
