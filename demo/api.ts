import { apiOf, askerOf, type Output } from "../packages/millrace/cli/api-client.ts";
import { Refusal } from "../packages/millrace/cli/command.ts";
import type { ApiOf, EngineApi } from "../packages/millrace/src/http/engine-routes.ts";
import type { articles } from "../src/api/articles.ts";
import type { brandCycles } from "../src/api/brand-cycles.ts";
import type { brands } from "../src/api/brands.ts";

type Listed<Answer> = Answer extends { items: (infer Item)[] } ? Item : never;
export type Step = Listed<Output<EngineApi, "/v1/instances/:id/steps", "$get">>;
export type EmittedMessage = Listed<Output<EngineApi, "/v1/instances/:id/events", "$get">>;
type RetryPlan = Extract<Output<EngineApi, "/v1/instances/:id/retry", "$post">, { effects: unknown }>;

type Brands = ApiOf<(typeof brands)[number]>;
type BrandState = Output<Brands, "/v1/brands/:brand", "$get">;
export type Article = Output<ApiOf<(typeof articles)[number]>, "/v1/articles/:id", "$get">;
type Settings = Output<Brands, "/v1/brands/:brand", "$put">;
type DecisionPage = Output<Brands, "/v1/brands/:brand/decisions", "$get">;
type CycleState = Output<ApiOf<(typeof brandCycles)[number]>, "/v1/brands/:brand/cycles/:cycle", "$get">;
export type Decision = DecisionPage["items"][number];

/** A rule that makes an embedded upstream fail. With `remaining: null`, the upstream fails until the rule is removed. */
interface Fault {
  upstream: string;
  match: string;
  status: number;
  remaining: number | null;
  /** True if the upstream executes the request, and then only the response is lost. */
  afterEffect?: boolean;
}

/** For each embedded upstream, the number of results with each outcome. */
export type LedgerTotals = Record<string, Record<string, number>>;

/** The engine's API routes that the demo calls. */
export function brandApi({ url, token }: { url: string; token: string }) {
  const ask = askerOf(url, token);
  const api = apiOf(url, token);
  return {
    ...api,
    steps: async (id: string) => (await ask<{ items: Step[] }>("GET", `/v1/instances/${id}/steps`)).items,
    events: async (id: string) => (await ask<{ items: EmittedMessage[] }>("GET", `/v1/instances/${id}/events?payload=true`)).items,
    planRetry: (id: string, reason: string) => ask<RetryPlan>("POST", `/v1/instances/${id}/retry`, { reason, dry_run: true }),
    setFaults: (faults: Fault[]) => ask<void>("PUT", "/embedded/faults", faults),
    clearFaults: () => ask<void>("DELETE", "/embedded/faults"),
    ledgerTotals: async () => (await ask<{ totals: LedgerTotals }>("GET", "/embedded/ledger")).totals,
    brand: (name: string) => ask<BrandState>("GET", `/v1/brands/${name}`),
    setBrand: (name: string, settings: object) => ask<Settings>("PUT", `/v1/brands/${name}`, settings),
    /** Confirms the effect of an instance that has an unknown outcome. */
    confirm: async (id: string, reason: string, output: object): Promise<void> => {
      const { items } = await ask<{ items: { key: string; state: string }[] }>("GET", `/v1/instances/${id}/effects`);
      const key = items.find(({ state }) => state === "in_doubt")?.key;
      await ask<void>("POST", `/v1/effects/${key}/confirm`, { reason, output });
    },
    article: (id: string) => ask<Article>("GET", `/v1/articles/${id}`),
    cycleState: (name: string, cycle: string) => ask<CycleState>("GET", `/v1/brands/${name}/cycles/${cycle}`),
    /** The decisions of a content cycle, in order. */
    decisions: async (name: string, cycle: string): Promise<Decision[]> =>
      (await ask<DecisionPage>("GET", `/v1/brands/${name}/decisions?${new URLSearchParams({ cycle })}`)).items.reverse(),
    /** Requests a content cycle. The name of the cycle is also the id of the cycle's job. */
    cycle: async (brand: string, cycle: string, keywords: readonly string[]): Promise<void> =>
      accepted(await api.enqueue([{ type: "brand.cycle", payload: { brand, cycle, keywords }, correlation_id: cycle }])),
    audit: async (brand: string, audit: string): Promise<void> =>
      accepted(await api.enqueue([{ type: "brand.audit", payload: { brand, audit }, correlation_id: audit }])),
  };
}

export type BrandApi = ReturnType<typeof brandApi>;

function accepted(results: readonly object[]): void {
  for (const result of results as readonly { problem?: { detail: string } }[]) {
    if (result.problem) throw new Refusal(`The engine refused a command: ${result.problem.detail}`);
  }
}
