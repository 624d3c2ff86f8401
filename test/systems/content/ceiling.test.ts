import { env } from "cloudflare:workers";
import { traces } from "millrace";
import { expect, it } from "vitest";
import { searchWeb } from "../../../src/steps/search-web.ts";
import { type Caller, callerWith, fresh, type Json, until } from "../../api/client.ts";
import { ledger } from "../../providers/embedded.ts";
import { Writing } from "./writing.ts";

// vitest.config.ts: a search costs 3 cents at most, an answer 20.
const TENANT = "spending";
const BRAND = "spending:acme";

const limit = (caller: Caller, account: string, limit_cents: number) => caller.call("PUT", `/v1/budgets/${account}`, { limit_cents });

/** An account, once this amount of it is spent. */
async function spent(caller: Caller, account: string, cents: number): Promise<Json> {
  const budget = async () => (await caller.get(`/v1/budgets/${account}`)).body;
  return until(budget, ({ spent_cents }) => spent_cents === cents);
}

async function asking(limits: Record<string, number>): Promise<Writing> {
  const caller = await callerWith();
  for (const [account, cents] of Object.entries(limits)) expect((await limit(caller, account, cents)).status).toBe(200);
  const keyword = fresh("keyword");
  expect((await caller.ask(keyword)).status).toBe(202);
  return new Writing(caller, keyword);
}

async function waiting({ caller, keyword }: Writing, workflow: string): Promise<Json> {
  const look = async () => (await caller.get(`/v1/instances?workflow=${workflow}&subject=acme/${keyword}`)).body.items as Json[];
  const [found] = await until(look, ([one]) => one?.status === "waiting");
  return found;
}

const paid = async ({ keyword }: Writing) => {
  const { search, text } = (await ledger({ match: keyword })).totals;
  return { search: search.charged, text: text.charged };
};

it("a model's answer beyond a brand's limit is not paid for: it waits, and is written once the limit is raised", async () => {
  const writing = await asking({ [BRAND]: 25 });
  const found = await waiting(writing, "generate-article");
  expect(found.waiting_for).toMatchObject([{ event_type: "budget.set", subject: BRAND }]);
  expect(await paid(writing)).toEqual({ search: 1, text: 1 });
  const { body } = await writing.caller.get(`/v1/instances/${found.id}/effects`);
  expect(JSON.stringify(body)).toContain(`has 2 cents left, and this may cost 20: raise its limit with PUT /v1/budgets/${BRAND}`);

  await limit(writing.caller, BRAND, 42);
  await waiting(writing, "generate-article");
  expect(await paid(writing)).toEqual({ search: 1, text: 1 });
  await limit(writing.caller, BRAND, 43);
  await writing.reaches("complete");
  expect(await paid(writing)).toEqual({ search: 1, text: 2 });
  expect(await spent(writing.caller, BRAND, 43)).toMatchObject({ spent_cents: 43, held_cents: 0, remaining_cents: 0 });
});

it("a search beyond the limit of the tenant or the brand is not paid for, and holds nothing in the other account", async () => {
  const writing = await asking({ [TENANT]: 100, [BRAND]: 2 });
  await waiting(writing, "research-keyword");
  expect(await paid(writing)).toEqual({ search: 0, text: 0 });
  // The limits' own notification may arrive only now, and cause another poll.
  const tenant = async () => (await writing.caller.get(`/v1/budgets/${TENANT}`)).body;
  expect(await until(tenant, ({ held_cents }) => held_cents === 0)).toMatchObject({ held_cents: 0, remaining_cents: 100 });
  await limit(writing.caller, BRAND, 100);
  await writing.reaches("complete");
  for (const account of [TENANT, BRAND]) {
    expect(await spent(writing.caller, account, 43)).toMatchObject({ held_cents: 0, remaining_cents: 57 });
  }
});

it("a call of a model that is still refused after the last delay fails the step with a message, and nothing is paid", async () => {
  const caller = await callerWith();
  await limit(caller, TENANT, 1);
  const query = fresh("query");
  const input = { query, tenantId: caller.tenantId, brand: "acme", isLast: true };
  const call = {
    input,
    key: fresh("key"),
    trace: { traceparent: traces.begin() },
    fetch,
    signal: AbortSignal.timeout(5000),
    progress: () => undefined,
    env,
  };
  await expect(searchWeb.run(call)).rejects.toMatchObject({
    code: "not_retryable",
    message: expect.stringContaining("raise its limit with PUT /v1/budgets/spending"),
  });
  expect((await ledger({ match: query })).totals.search.charged).toBe(0);
});
