import { publishEvents, texts } from "millrace";
import { bodies, needs, times } from "millrace/http";
import * as z from "zod";
import { BudgetSet, isCeiling } from "../messages/budgets.ts";
import type { BudgetState } from "../systems/facts/derived/budget.ts";
import { BUDGET_LIMITS, budgetOf, canSpend, setLimit } from "../systems/facts/derived/budgets.ts";
import { operation } from "./operation.ts";

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

export const budgets = [
  operation("put", PATH, "putBudget", "budgets put", {
    summary: "Set the limit of an account",
    description:
      "A limit below the spent and held amount is accepted. New holds are refused while the spent and held amount exceeds the limit.",
    params: { account },
    body: limitSchema,
    answer: ["The budget", BudgetSchema],
    problems: ["invalid_transition"],
    async run({ env, by, catalog, param: { account }, body: { limit_cents } }) {
      const set = await setLimit(env, by, account, limit_cents);
      if (isCeiling(account)) {
        const event = { type: BudgetSet.type, payload: { account, limit_cents }, idempotencyKey: crypto.randomUUID() };
        await publishEvents(env, catalog, { tenantId: by.tenantId, source: "api" }, [event]);
      }
      return budgetView(account, set);
    },
  }),
  operation("get", PATH, "getBudget", "budgets show", {
    summary: "Get the budget of an account",
    description: "Returns the limit, the held and the spent amount of the account.",
    params: { account },
    answer: ["The current budget", BudgetSchema],
    run: async ({ env, by, param: { account } }) => budgetView(account, await budgetOf(env, by.tenantId, account).state()),
  }),
  operation("post", `${PATH}/asks`, "askBudget", "budgets ask", {
    summary: "Request a hold on a budget",
    description: [
      "Grants a hold if the spent amount, the unexpired holds and the new hold are within the limit at that moment.",
      "The idempotency key identifies the payment. A repeated request holds no further amount until the hold was released or has expired; then it is a new request. A refused hold is not recorded.",
    ].join("\n\n"),
    ...needs("enqueue"),
    key: "The key is required: it identifies the payment.",
    params: { account },
    body: askSchema,
    answer: ["The hold was granted, or refused for the given reason", AnswerSchema],
    problems: ["idempotency_key_reused"],
    run({ env, by, param, body, key }) {
      if (key === undefined) throw bodies.invalid([{ path: "Idempotency-Key", message: "is missing: name the purpose of the amount" }]);
      return canSpend(env, by.tenantId, param.account, { key, ...body });
    },
  }),
  operation("delete", `${PATH}/holds/{hold}`, "releaseHold", "budgets release", {
    summary: "Release a hold",
    description: "The release of a hold that has ended or never existed is not an error; see `state`.",
    ...needs("enqueue"),
    params: { account, hold: z.string().max(200) },
    answer: ["The state of the hold", ReleasedSchema],
    run: ({ env, by, param: { account, hold } }) => budgetOf(env, by.tenantId, account).release(hold),
  }),
];

function budgetView(account: string, { limit_set_at, ...state }: BudgetState): z.infer<typeof BudgetSchema> {
  return { account, ...state, limit_set_at: times.isoOrNull(limit_set_at) };
}
