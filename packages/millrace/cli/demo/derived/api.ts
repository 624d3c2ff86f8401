import pRetry from "p-retry";
import type { budgets } from "../../../../../src/api/budgets.ts";
import type { contacts } from "../../../../../src/api/contacts.ts";
import type { facts } from "../../../../../src/api/facts.ts";
import type { ledgers } from "../../../../../src/api/ledgers.ts";
import type { qualificationRules } from "../../../../../src/api/qualification-rules.ts";
import { askerOf, type Output } from "../../api-client.ts";
import { Refusal } from "../../command.ts";

type Rules = Output<ReturnType<typeof qualificationRules>, "/v1/qualification-rules", "$put">;
type Decided = Output<ReturnType<typeof qualificationRules>, "/v1/qualification-rules/try", "$post">;
export type Budget = Output<ReturnType<typeof budgets>, "/v1/budgets/:account", "$get">;
type Answered = Output<ReturnType<typeof budgets>, "/v1/budgets/:account/asks", "$post">;
type Contact = Output<ReturnType<typeof contacts>, "/v1/contacts/:id", "$get">;
type Stated = Output<ReturnType<typeof facts>, "/v1/facts", "$post">;
type Ledger = Output<ReturnType<typeof ledgers>, "/v1/ledgers/:entity", "$get">;

/** What is named by a key, or stated as a fact, bears repetition. A machine with a thousand asks at once answers some of them late. */
const PATIENCE = { retries: 3, minTimeout: 500 };

/** What the story needs of an engine's API. */
export function derivedApi(url: string, token: string) {
  const ask = askerOf(url, token);
  return {
    /** States facts; answers how many of them are new. */
    state: async (stated: readonly object[]): Promise<number> => {
      const { results } = await pRetry(() => ask<Stated>("POST", "/v1/facts", { facts: stated }), PATIENCE);
      for (const result of results) if ("problem" in result) throw new Refusal(`A fact was refused: ${result.problem.detail}`);
      return results.filter(({ status }) => status === 201).length;
    },
    /** The facts of a ledger that follow from others; none while nobody has stated any. */
    ledger: async (entity: string): Promise<Ledger["items"]> =>
      ask<Ledger>("GET", `/v1/ledgers/${encodeURIComponent(entity)}`).then(
        ({ items }) => items,
        () => [],
      ),
    setRules: (rules: readonly object[]) => ask<Rules>("PUT", "/v1/qualification-rules", { rules, expected_version: 0 }),
    tryRules: (outcome: object) => ask<Decided>("POST", "/v1/qualification-rules/try", { outcome }),
    setLimit: (account: string, limit_cents: number) => ask<Budget>("PUT", `/v1/budgets/${account}`, { limit_cents }),
    budget: (account: string) => ask<Budget>("GET", `/v1/budgets/${account}`),
    ask: (account: string, key: string, amount_cents: number) =>
      pRetry(() => ask<Answered>("POST", `/v1/budgets/${account}/asks`, { amount_cents }, { "idempotency-key": key }), PATIENCE),
    contact: (id: string) => ask<Contact>("GET", `/v1/contacts/${id}`),
  };
}

export type DerivedApi = ReturnType<typeof derivedApi>;
