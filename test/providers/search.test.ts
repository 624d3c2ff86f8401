import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { search } from "../../src/providers/index.ts";
import { braveSearch } from "../../src/providers/search.ts";
import { fresh } from "../api/client.ts";
import { inject, ledger, scripted } from "./embedded.ts";

afterEach(() => inject());

describe("search", () => {
  it("the search finds the same five sources for the same query, and is charged each time", async () => {
    const own = fresh();
    const first = await search(env).search(`green tea ${own}`, { key: "k1" });
    const second = await search(env).search(`green tea ${own}`, { key: "k1" });
    expect(first).toHaveLength(5);
    expect(first[0]).toMatchObject({ title: `Green tea ${own}: a practical guide`, url: `https://guides.example.com/green-tea-${own}` });
    expect(second).toEqual(first);
    expect((await ledger({ match: `green tea ${own}` })).totals.search.charged).toBe(2);
  });

  it("the search works with a query in any script", async () => {
    const [first] = await search(env).search("緑茶 & más?", { key: "k1" });
    expect(first?.url).toBe("https://guides.example.com/%E7%B7%91%E8%8C%B6-m%C3%A1s");
  });

  it("the search adapter uses Brave's format", async () => {
    const brave = scripted(Response.json({ type: "search", web: { results: [{ title: "A", url: "https://a.example.com/" }] } }));
    const results = await braveSearch(brave).search("tea & cake", { key: "k1" });
    expect(results).toEqual([{ title: "A", url: "https://a.example.com/", description: "" }]);
    const [request] = brave.requests;
    expect(request?.url).toBe("https://upstream.example.com/res/v1/web/search?q=tea+%26+cake&count=5&text_decorations=false");
    expect(request?.headers.get("x-subscription-token")).toBe("s3cret-token");
  });

  it("the search drops an invalid field, or a result without a valid link, and no other part of the paid results", async () => {
    const url = (name: string) => `https://${name}.example.com/`;
    const odd = [
      { title: "A", url: url("a"), description: null },
      { title: 7, url: url("b"), description: "B" },
      { title: "C", url: "javascript:alert(1)", description: "C" },
      { title: "D", url: 9 },
      null,
      { title: "E", url: url("e"), description: ["E"] },
    ];
    const found = await braveSearch(scripted(Response.json({ web: { results: odd } }))).search("tea", { key: "k" });
    expect(found).toEqual([
      { title: "A", url: url("a"), description: "" },
      { title: url("b"), url: url("b"), description: "B" },
      { title: "E", url: url("e"), description: "" },
    ]);
  });

  it("the search keeps the first five results that can be linked, with the beginning of each text", async () => {
    const result = (id: number) => ({
      title: "T".repeat(1_000_000),
      url: `https://a.example/${id}`,
      description: "\u{1f375}".repeat(500_000),
    });
    const listed = [
      { title: "None" },
      { url: `https://a.example/${"x".repeat(9000)}` },
      ...Array.from({ length: 10 }, (_, id) => result(id)),
    ];
    const found = await braveSearch(scripted(Response.json({ web: { results: listed } }))).search("tea", { key: "k" });
    expect(found).toEqual(
      [0, 1, 2, 3, 4].map((id) => ({ title: "T".repeat(300), url: `https://a.example/${id}`, description: "\u{1f375}".repeat(1500) })),
    );
  });

  it.each([
    { message: "API rate limit exceeded" },
    { errors: [{ message: "No such route" }] },
    { ok: true },
    {},
    [],
    { web: null },
    { web: "none", query: "tea" },
    { web: { results: [{ title: "A" }, { title: "B", link: "https://b.example/" }] } },
    { type: "search", web: { results: [{ title: "C", url: "javascript:alert(1)" }] } },
  ])("the search counts as failed if a 200 response is %j", async (answer) => {
    const found = braveSearch(scripted(Response.json(answer))).search("tea", { key: "k" });
    await expect(found).rejects.toMatchObject({ code: "unavailable", message: expect.stringContaining("not in the expected format") });
  });

  it.each([
    { type: "search", web: null },
    { query: { original: "tea" }, web: "none" },
    { web: {} },
    { web: { results: "none" } },
    { web: { results: [] } },
  ])("the search has no result in %j", async (answer) => {
    expect(await braveSearch(scripted(Response.json(answer))).search("tea", { key: "k" })).toEqual([]);
  });

  it("the search has no result if Brave omits `web`", async () => {
    expect(await braveSearch(scripted(Response.json({ type: "search" }))).search("tea", { key: "k" })).toEqual([]);
  });

  it.each([
    [
      { status: 429, code: "RATE_LIMITED", detail: "Slow down." },
      { code: "retry_after", message: expect.stringContaining("Slow down") },
    ],
    [{ status: 422, code: "OPTION_NOT_IN_PLAN", detail: "No." }, { code: "not_retryable" }],
    [{ detail: "Oops." }, { code: "unavailable" }],
    ["Oops.", { code: "unavailable" }],
  ])("the search has no result and counts as failed if a 200 response has the error %o in its body", async (error, failure) => {
    const upstream = scripted(Response.json({ type: "ErrorResponse", error, time: 1 }));
    await expect(braveSearch(upstream).search("tea", { key: "k" })).rejects.toMatchObject(failure);
  });

  it("the search is not charged for a call that a fault refused", async () => {
    const tea = `white tea ${fresh()}`;
    await inject({ upstream: "search", match: tea, status: 429, remaining: 1, retryAfter: 3 });
    await expect(search(env).search(tea, { key: "k1" })).rejects.toMatchObject({ code: "retry_after", detail: { delayMs: 3_000 } });
    await search(env).search(tea, { key: "k1" });
    expect((await ledger({ match: tea })).totals.search).toMatchObject({ refused: 1, charged: 1 });
  });

  it("the search refuses a wrong token", async () => {
    await expect(search({ ...env, SEARCH_TOKEN: "wrong" }).search("tea", { key: "k1" })).rejects.toMatchObject({ code: "not_retryable" });
  });
});
