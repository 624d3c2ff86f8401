import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { accountTarget, faultOf, type ProvidersEnv, type SiteTarget, type SocialTarget, siteTarget } from "../../src/providers/index.ts";
import { secretVariable, targetSecret } from "../../src/providers/target-secret.ts";

const site = (kind: SiteTarget["kind"], secret?: string): SiteTarget => ({ tenantId: "acme", brand: "tea", name: "blog", kind, secret });
const account = (platform: SocialTarget["platform"], secret?: string): SocialTarget => ({
  tenantId: "acme",
  brand: "tea",
  name: "news",
  platform,
  secret,
});

/** A deployment with one secret. */
const deployed = (variable: string, value: object | string) =>
  ({ [variable]: typeof value === "string" ? value : JSON.stringify(value) }) as ProvidersEnv;

describe("The variable of a secret", () => {
  it("the variable of a secret consists of its tenant and its name", () => {
    expect(secretVariable("acme", "blog")).toBe("TARGET_ACME__BLOG");
    expect(secretVariable("acme-2_b", "my-blog")).toBe("TARGET_ACME_2D2_5FB__MY_2DBLOG");
  });

  it("the variable of a secret belongs to one tenant and one name: no other pair has it, and it is a valid variable name", () => {
    const name = fc.stringMatching(/^[a-z0-9][a-z0-9_-]{0,12}$/);
    fc.assert(
      fc.property(name, name, name, name, (tenant, secret, otherTenant, otherSecret) => {
        const same = tenant === otherTenant && secret === otherSecret;
        expect(secretVariable(tenant, secret) === secretVariable(otherTenant, otherSecret)).toBe(same);
        expect(secretVariable(tenant, secret)).toMatch(/^[A-Z_][A-Z0-9_]*$/);
      }),
      { numRuns: 2000 },
    );
  });

  it.each([
    ["a", "b__c", "a__b", "c"],
    ["a_", "b", "a", "_b"],
    ["a-", "b", "a", "-b"],
    ["a", "2db", "a2d", "b"],
  ])("the variables of the secrets %s/%s and %s/%s are different", (tenant, secret, otherTenant, otherSecret) => {
    expect(secretVariable(tenant, secret)).not.toBe(secretVariable(otherTenant, otherSecret));
  });
});

describe("A secret", () => {
  const token = "s3cret-t0ken";
  const url = "https://blog.example.com";

  it("a target's secret contains its address and its credential", () => {
    const env = deployed("TARGET_ACME__BLOG", { url: `${url}/`, user: "ed", token });
    expect(targetSecret(env, "wordpress", "acme", "blog")).toEqual({ url, user: "ed", token });
    expect(siteTarget(env, site("wordpress", "blog"))).toMatchObject({ kind: "wordpress", store: "wordpress blog.example.com" });
  });

  it("a secret of another tenant is not found under its name", () => {
    const env = deployed("TARGET_RIVAL__BLOG", { url, token });
    expect(faultOf(env, site("http", "blog"))).toContain("The secret TARGET_ACME__BLOG is not set");
  });

  it.each<[string, string]>([
    ["", "is not set"],
    [`${token}`, "it is not JSON"],
    [JSON.stringify([token]), "it is missing, empty, or of the wrong type"],
    [JSON.stringify({ token }), "url is missing"],
    [JSON.stringify({ url, token: "" }), "token is missing, empty"],
    [JSON.stringify({ url, token, [token]: 1 }), "it has an unknown field"],
    [JSON.stringify({ url: "ftp://blog.example.com", token }), "url must be an http(s) address"],
    [JSON.stringify({ url: `https://ed:${token}@blog.example.com`, token }), "url must be an http(s) address without a user"],
    [JSON.stringify({ url: `${url}/?key=${token}`, token }), "without a user, a query"],
  ])("a secret with the value %j is refused, and the error contains no part of it", (value, words) => {
    const said = faultOf(deployed("TARGET_ACME__BLOG", value), site("http", "blog")) ?? "";
    expect(said).toContain(words);
    expect(said).toContain("TARGET_ACME__BLOG");
    expect(said).toContain("{ url, token } as JSON");
    expect(said).not.toContain(token);
  });

  it.each([
    [account("bluesky", "news"), { url, handle: "tea.example.com", password: token }],
    [account("mastodon", "news"), { url, token }],
    [account("x", "news"), { api_key: "a", api_secret: "b", access_token: "c", access_token_secret: token }],
  ])("an account that names a secret requires it: $platform", (target, value) => {
    expect(faultOf({}, target)).toContain("TARGET_ACME__NEWS is not set");
    expect(faultOf(deployed("TARGET_ACME__NEWS", value), target)).toBeUndefined();
    expect(faultOf(deployed("TARGET_ACME__NEWS", { ...value, more: 1 }), target)).toContain("unknown field");
  });

  it("a secret of X has an address only if it is not X's own", () => {
    const value = { url: "https://proxy.example.com", api_key: "a", api_secret: "b", access_token: "c", access_token_secret: "d" };
    expect(targetSecret(deployed("TARGET_ACME__NEWS", { ...value, url: undefined }), "x", "acme", "news").url).toBe("https://api.x.com");
    expect(targetSecret(deployed("TARGET_ACME__NEWS", value), "x", "acme", "news").url).toBe("https://proxy.example.com");
  });
});

describe("A target without a secret", () => {
  it("a target without a secret is refused if no setting has its address", () => {
    expect(faultOf({}, site("wordpress"))).toContain('The site "blog" names no secret');
    expect(faultOf({}, account("x"))).toContain('The account "news" names no secret');
  });

  it("a target without a secret is the page store, or an embedded server", () => {
    const env = { UPSTREAMS: { fetch: async () => new Response() } };
    expect(siteTarget({ ...env, PAGES_URL: "https://pages.example.com", PAGES_TOKEN: "t" }, site("store"))).toMatchObject({
      store: "embedded",
    });
    expect(accountTarget(env, { ...account("x"), platform: "x" })).toHaveProperty("post");
  });
});
