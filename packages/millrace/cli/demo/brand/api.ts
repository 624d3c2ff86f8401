import type { articles } from "../../../../../src/api/articles.ts";
import type { brands } from "../../../../../src/api/brands.ts";
import { apiOf, askerOf, type Output } from "../../api-client.ts";
import { Refusal } from "../../command.ts";

type Brands = ReturnType<typeof brands>;
type BrandState = Output<Brands, "/v1/brands/:brand", "$get">;
type Article = Output<ReturnType<typeof articles>, "/v1/articles/:id", "$get">;
type Settings = Output<Brands, "/v1/brands/:brand", "$put">;
type DecisionPage = Output<Brands, "/v1/brands/:brand/decisions", "$get">;
export type Decision = DecisionPage["items"][number];

/** What the story needs of an engine's API. */
export function brandApi({ url, token }: { url: string; token: string }) {
  const ask = askerOf(url, token);
  const api = apiOf(url, token);
  return {
    ...api,
    brand: (name: string) => ask<BrandState>("GET", `/v1/brands/${name}`),
    setBrand: (name: string, settings: object) => ask<Settings>("PUT", `/v1/brands/${name}`, settings),
    article: (id: string) => ask<Article>("GET", `/v1/articles/${id}`),
    /** What was decided in a cycle, in its order. */
    decisions: async (name: string, cycle: string): Promise<Decision[]> =>
      (await ask<DecisionPage>("GET", `/v1/brands/${name}/decisions?${new URLSearchParams({ cycle })}`)).items.reverse(),
    /** Asks for a cycle, which is a job of the same name. */
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
