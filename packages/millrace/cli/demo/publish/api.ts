import type { articles } from "../../../../../src/api/articles.ts";
import type { brands } from "../../../../../src/api/brands.ts";
import type { EngineApi } from "../../../src/http/engine-api.ts";
import { apiOf, askerOf, type Output } from "../../api-client.ts";
import { Refusal } from "../../command.ts";

type ArticlePage = Output<ReturnType<typeof articles>, "/v1/articles", "$get">;
export type ArticleDetail = Output<ReturnType<typeof articles>, "/v1/articles/:id", "$get">;
type Promised = Output<ReturnType<typeof articles>, "/v1/articles/:id/publish", "$post">;
type ApprovalPage = Output<EngineApi, "/v1/approvals", "$get">;
type Brand = Output<ReturnType<typeof brands>, "/v1/brands/:brand", "$put">;

/** A call as the embedded upstreams' ledger has it. */
export interface LedgerCall {
  key: string | null;
  subject: string;
  outcome: string;
}

/** What the story needs of an engine's API. */
export function publishApi(url: string, token: string) {
  const ask = askerOf(url, token);
  const { enqueue } = apiOf(url, token);
  return {
    /** A brand that wants a person's yes, and gives that person so long. */
    wantsApproval: (brand: string, timeout: string) =>
      ask<Brand>("PUT", `/v1/brands/${brand}`, { approval: "required", approval_timeout: timeout, approval_default: "reject" }),
    async askFor(brand: string, keywords: readonly string[]): Promise<void> {
      const results = await enqueue(keywords.map((keyword) => ({ type: "research.requested", payload: { brand, keyword } })));
      for (const result of results) if ("problem" in result) throw new Refusal(`The engine refused a command: ${result.problem.detail}`);
    },
    articles: async (brand: string) => (await ask<ArticlePage>("GET", `/v1/articles?brand=${brand}`)).items,
    article: (id: string) => ask<ArticleDetail>("GET", `/v1/articles/${id}`),
    approvals: async () => (await ask<ApprovalPage>("GET", "/v1/approvals")).items,
    answer: (id: string, verb: "approve" | "reject", reason: string) => ask<unknown>("POST", `/v1/approvals/${id}/${verb}`, { reason }),
    unpublish: (id: string, reason: string) => ask<Promised>("POST", `/v1/articles/${id}/unpublish`, { reason }),
    publish: (id: string, reason: string) => ask<Promised>("POST", `/v1/articles/${id}/publish`, { reason }),
    /** What an upstream's own ledger says. */
    ledger: async (upstream: string) => (await ask<{ calls: LedgerCall[] }>("GET", `/embedded/ledger?upstream=${upstream}`)).calls,
  };
}

export type PublishApi = ReturnType<typeof publishApi>;
