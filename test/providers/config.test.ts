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
    ["a valid search address", search, { SEARCH_URL: "ftp://x", SEARCH_TOKEN: "t" }, "SEARCH_URL is not an http(s) address"],
    ["a binding of the embedded upstreams", search, {}, "UPSTREAMS"],
    ["a CRM token", crmOf, { CRM_URL: url, CRM_TENANTS: "acme", RATE_LIMIT: env.RATE_LIMIT }, "CRM_TOKEN"],
    ["a binding of the embedded CRM", crmOf, { RATE_LIMIT: env.RATE_LIMIT }, "EMBEDDED_CRM"],
    ["the tenant of the CRM's account", crmOf, { CRM_URL: url, CRM_TOKEN: "t", RATE_LIMIT: env.RATE_LIMIT }, "CRM_TENANTS"],
    ["the tenant in the list of the CRM's tenants", crmOf, { CRM_TENANTS: "acme2, bravo", RATE_LIMIT: env.RATE_LIMIT }, "CRM_TENANTS"],
    ["the CRM's limit", crmOf, { CRM_URL: url, CRM_TENANTS: "acme", CRM_TOKEN: "t" }, "RATE_LIMIT"],
  ])("a provider configuration without %s is refused, and the error names the variable to set", (_, factory, incomplete, words) => {
    const attempt = () => factory(incomplete);
    expect(attempt).toThrow(expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(words) }));
  });

  it("a provider address with the scheme `embedded:` selects the embedded upstream", async () => {
    expect(await search({ ...env, SEARCH_URL: "embedded:search" }).search("tea", { key: "k" })).toHaveLength(5);
  });

  it("a key proxy gets each call of search, text and CRM with the tenant's name and without a credential of this deployment", async () => {
    const seen: [string, string | null][] = [];
    const KEY_PROXY = {
      async fetch(request: Request) {
        expect([...request.headers.values()].join()).not.toContain("s3cret");
        seen.push([new URL(request.url).host, request.headers.get("millrace-tenant")]);
        return Response.json({ error: "no" }, { status: 400 });
      },
    } as unknown as ProvidersEnv["KEY_PROXY"] & object;
    const at = (name: string) => `https://${name}.example.com`;
    const secrets = { SEARCH_TOKEN: "s3cret", TEXT_TOKEN: "s3cret", CRM_TOKEN: "s3cret" };
    const urls = { SEARCH_URL: at("search"), TEXT_URL: at("text"), TEXT_MODEL: "m", CRM_URL: at("crm"), CRM_TENANTS: "acme" };
    const vars = { RATE_LIMIT: env.RATE_LIMIT, KEY_PROXY, ...secrets, ...urls };
    const options = { key: "k" };
    await expect(search(vars, "acme").search("tea", options)).rejects.toThrow();
    await expect(text(vars, "acme").generate({ system: "s", prompt: "p", maxTokens: 10 }, options)).rejects.toThrow();
    await crm(vars, "acme").name([{ crmId: "1", key: "c" }], options);
    expect(seen.slice(0, 3)).toEqual([
      ["search.example.com", "acme"],
      ["text.example.com", "acme"],
      ["crm.example.com", "acme"],
    ]);
  });
});
