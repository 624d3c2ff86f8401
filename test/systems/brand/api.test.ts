import { expect, it } from "vitest";
import { callerWith, expectProblem, fresh, type Json } from "../../api/client.ts";
import { cycle, decided, stands, verdicts } from "./brand.ts";

it("a brand's settings are replaced as a whole, with their author, and are shown", async () => {
  const caller = await callerWith();
  const put = await caller.call("PUT", "/v1/brands/acme", { max_drafts: 7, approval: "required", approval_timeout: "90 minutes" });
  const settings = { max_drafts: 7, rate_per_second: 2, approval: "required", approval_timeout: "90 minutes", approval_default: "reject" };
  const totals = { pending_research: 0, generated: 0, published: 0 };
  expect(put).toMatchObject({ status: 200, body: { brand: "acme", settings, updated_by: "ada", updated_at: expect.any(String) } });
  const counts = { live: 0, drafts: 0, on_their_way: 0, held: 0 };
  expect((await caller.get("/v1/brands/acme")).body).toEqual({ ...put.body, counts, totals, last_audit: null, last_cycle: null });
  expect((await caller.call("PUT", "/v1/brands/acme", { approval_timeout: "365 days" })).status).toBe(200);
  await caller.call("PUT", "/v1/brands/acme", { reason: "restored to the earlier settings" });
  const { items } = (await caller.get("/v1/audit")).body;
  expect(items.map(({ verb, target, actor, reason, detail }: Json) => [verb, target, actor, reason, detail.approval])).toEqual([
    ["settings", "acme", "ada", "restored to the earlier settings", "none"],
    ["settings", "acme", "ada", "", "none"],
    ["settings", "acme", "ada", "", "required"],
  ]);
  expect((await caller.get("/v1/brands/acme")).body.settings).toMatchObject({
    max_drafts: 5,
    approval: "none",
    approval_timeout: "3 days",
  });
});

it.each([
  ["max_drafts", 0],
  ["max_drafts", 1001],
  ["max_drafts", 1.5],
  ["rate_per_second", 0.01],
  ["approval", "maybe"],
  ["approval_timeout", "soon"],
  ["approval_timeout", "0 days"],
  // Longer than the maximum wait of a question: every publication would fail permanently, because the brand's settings are recorded.
  ["approval_timeout", "366 days"],
  ["approval_default", "none"],
  ["max_draft", 3],
])("brand settings with %s %j are refused, and change nothing", async (name, value) => {
  const caller = await callerWith();
  const { issues } = expectProblem(await caller.call("PUT", "/v1/brands/acme", { [name]: value }), 422, "invalid_payload");
  expect(issues).toMatchObject([{ path: name }]);
  expectProblem(await caller.get("/v1/brands/acme"), 404, "brand_not_found");
  expectProblem(await caller.call("PUT", "/v1/brands/Acme!", {}), 422, "invalid_payload");
});

it("brands are listed by name, page by page, to their own tenant only, including a brand that only ran a cycle", async () => {
  const [caller, stranger] = [await callerWith(), await callerWith()];
  for (const name of ["b", "a"]) await caller.call("PUT", `/v1/brands/${name}`, {});
  await decided(caller, await cycle(caller, { brand: "c", cycle: "w1", keywords: ["k"] }));
  await stands(caller, "c", { live: 1 });
  const first = (await caller.get("/v1/brands?limit=2")).body;
  expect(first).toMatchObject({ items: [{ brand: "a" }, { brand: "b" }], next_cursor: expect.any(String) });
  expect((await caller.get(`/v1/brands?limit=2&cursor=${first.next_cursor}`)).body).toMatchObject({
    items: [{ brand: "c", updated_by: null, settings: { max_drafts: 5 } }],
    next_cursor: null,
  });
  expect((await stranger.get("/v1/brands")).body.items).toEqual([]);
  for (const path of ["", "/decisions", "/keywords"]) expectProblem(await stranger.get(`/v1/brands/c${path}`), 404, "brand_not_found");
});

it("a brand's decisions and keywords are listed in pages, newest first, and by keyword or cycle", async () => {
  const caller = await callerWith();
  const brand = fresh("brand");
  await decided(caller, await cycle(caller, { brand, cycle: "w1", keywords: ["a", "b", "c"] }));
  await decided(caller, await cycle(caller, { brand, cycle: "w2", keywords: ["A"] }));
  const path = `/v1/brands/${brand}`;
  const first = (await caller.get(`${path}/decisions?limit=3`)).body;
  expect(first.items.map(({ cycle, keyword }: Record<string, string>) => `${cycle} ${keyword}`)).toEqual(["w2 A", "w1 c", "w1 b"]);
  const second = (await caller.get(`${path}/decisions?limit=3&cursor=${first.next_cursor}`)).body;
  expect(second).toMatchObject({ items: [{ keyword: "a" }], next_cursor: null });
  expect(await verdicts(caller, brand, "&keyword=%20a")).toEqual(["a requested", "A skipped"]);
  expect(await verdicts(caller, brand, "&cycle=w2")).toEqual(["A skipped"]);
  const keywords = (await caller.get(`${path}/keywords?limit=2`)).body;
  expect(keywords.items.map(({ keyword }: Record<string, string>) => keyword)).toEqual(["c", "b"]);
  const rest = (await caller.get(`${path}/keywords?limit=2&cursor=${keywords.next_cursor}`)).body;
  expect(rest).toMatchObject({ items: [{ keyword: "a" }], next_cursor: null });
  expectProblem(await caller.get(`${path}/decisions?cursor=x`), 422, "invalid_payload");
});

it("a brand has the site and the account of the deployment, until it has its own", async () => {
  const caller = await callerWith();
  const own = { sites: [{ name: "main", kind: "deployment" }], accounts: [{ name: "main", platform: "bluesky" }], announced_site: null };
  expect((await caller.call("PUT", "/v1/brands/acme", {})).body.settings).toMatchObject(own);
  const sites = [...own.sites, { name: "shop", kind: "store" }];
  const accounts = [{ name: "fedi", platform: "mastodon" }, ...own.accounts, { name: "birds", platform: "x" }];
  const put = await caller.call("PUT", "/v1/brands/acme", { sites, accounts, announced_site: "shop" });
  expect(put.body.settings).toMatchObject({ sites, accounts, announced_site: "shop" });
  expect((await caller.get("/v1/brands/acme")).body.settings).toEqual(put.body.settings);
  expect((await caller.call("PUT", "/v1/brands/acme", { accounts: [] })).body.settings).toMatchObject({ ...own, accounts: [] });
});

it.each<[string, object, string, string]>([
  ["two sites with one name", { sites: [site("main", "store"), site("main", "store")] }, "sites", "two of one name"],
  ["no site", { sites: [] }, "sites", ""],
  ["a name that could be a revision", { sites: [site("2", "store")] }, "sites.0.name", "begin with a letter"],
  ["an invalid kind", { sites: [site("main", "ftp")] }, "sites.0.kind", ""],
  ["an address", { sites: [{ ...site("main", "http"), url: "https://evil.example" }] }, "sites.0.url", ""],
  ["an external site without a secret", { sites: [site("main", "wordpress")] }, "sites.0.secret", "names no secret"],
  ["a secret that is not set", { sites: [site("main", "http", "blog")] }, "sites.0.secret", "__BLOG is not set"],
  ["a secret for the deployment's own site", { sites: [site("main", "deployment", "blog")] }, "sites.0.secret", "left out"],
  ["a store with a secret", { sites: [site("main", "store", "blog")] }, "sites.0.secret", "left out"],
  ["two accounts with one name", { accounts: [account("a", "x"), account("a", "mastodon")] }, "accounts", "two of one name"],
  ["an unknown platform", { accounts: [account("a", "myspace")] }, "accounts.0.platform", ""],
  ["an account's secret that is not set", { accounts: [account("a", "x"), account("b", "x", "b")] }, "accounts.1.secret", "__B is not set"],
  ["an announced site that is not one of its sites", { announced_site: "shop" }, "announced_site", "one of `sites`"],
])("a brand's settings with %s are refused, and change nothing", async (_, settings, path, words) => {
  const caller = await callerWith();
  const { issues } = expectProblem(await caller.call("PUT", "/v1/brands/acme", settings), 422, "invalid_payload");
  expect(issues).toMatchObject([{ path, message: expect.stringContaining(words) }]);
  expectProblem(await caller.get("/v1/brands/acme"), 404, "brand_not_found");
});

function site(name: string, kind: string, secret?: string) {
  return { name, kind, ...(secret !== undefined && { secret }) };
}

function account(name: string, platform: string, secret?: string) {
  return { name, platform, ...(secret !== undefined && { secret }) };
}
