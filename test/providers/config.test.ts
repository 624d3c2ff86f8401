import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { crm, type ProvidersEnv, pages, search, social, text } from "../../src/providers/index.ts";

const url = "https://upstream.example.com";

const crmOf = (vars: ProvidersEnv) => crm(vars, "acme");

describe("provider configuration", () => {
  it.each<[string, (env: ProvidersEnv) => unknown, ProvidersEnv, string]>([
    ["a search token", search, { SEARCH_URL: url }, "SEARCH_TOKEN"],
    ["a text token", text, { TEXT_URL: url, TEXT_MODEL: "gpt" }, "TEXT_TOKEN"],
    ["a model", text, { TEXT_URL: url, TEXT_TOKEN: "t" }, "TEXT_MODEL"],
    ["a pages token", pages, { PAGES_URL: url }, "PAGES_TOKEN"],
    ["a handle", social, { SOCIAL_URL: url, SOCIAL_PASSWORD: "p" }, "SOCIAL_HANDLE"],
    ["a password", social, { SOCIAL_URL: url, SOCIAL_HANDLE: "a.example.com" }, "SOCIAL_PASSWORD"],
    ["the AI binding", text, { TEXT_PROVIDER: "workers-ai", TEXT_MODEL: "m" }, "AI binding"],
    ["a known provider", text, { TEXT_PROVIDER: "gpt" }, '"openai" or "workers-ai"'],
    ["a real address", search, { SEARCH_URL: "ftp://x", SEARCH_TOKEN: "t" }, "SEARCH_URL is not an http(s) address"],
    ["a binding of the embedded upstreams", search, {}, "UPSTREAMS"],
    ["a CRM token", crmOf, { CRM_URL: url, CRM_TENANTS: "acme", RATE_LIMIT: env.RATE_LIMIT }, "CRM_TOKEN"],
    ["a binding of the embedded CRM", crmOf, { RATE_LIMIT: env.RATE_LIMIT }, "EMBEDDED_CRM"],
    ["the tenant of the CRM's account", crmOf, { CRM_URL: url, CRM_TOKEN: "t", RATE_LIMIT: env.RATE_LIMIT }, "CRM_TENANTS"],
    ["the tenant among the CRM's", crmOf, { CRM_TENANTS: "acme2, bravo", RATE_LIMIT: env.RATE_LIMIT }, "CRM_TENANTS"],
    ["the CRM's limit", crmOf, { CRM_URL: url, CRM_TENANTS: "acme", CRM_TOKEN: "t" }, "RATE_LIMIT"],
  ])("a provider configuration without %s is refused, and the error names the variable to set", (_, factory, incomplete, words) => {
    const attempt = () => factory(incomplete);
    expect(attempt).toThrow(expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(words) }));
  });

  it("a provider address that begins with embedded: selects the embedded upstream", async () => {
    expect(await search({ ...env, SEARCH_URL: "embedded:search" }).search("tea", { key: "k" })).toHaveLength(5);
  });
});
