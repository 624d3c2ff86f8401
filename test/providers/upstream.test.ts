import { describe, expect, it } from "vitest";
import { isDefiniteRefusal } from "../../src/engine/contract/errors.ts";
import { MAX_RETRY_AFTER_MS, retryAfterMs } from "../../src/providers/refusal.ts";
import { braveSearch } from "../../src/providers/search.ts";
import { blueskySocial } from "../../src/providers/social.ts";
import { scripted } from "./embedded.ts";

const failureOf = (...answers: (Response | Error)[]) =>
  braveSearch(scripted(...answers))
    .search("tea", { key: "k" })
    .then(
      () => expect.unreachable("the call should have failed"),
      (error: unknown) => error,
    );

const answering = (status: number, headers: Record<string, string> = {}, body = "{}") => new Response(body, { status, headers });

describe("what an upstream's answer means", () => {
  it.each([
    [429, { "retry-after": "7" }, "retry_after", 7_000],
    [429, {}, "retry_after", 30_000],
    [503, { "retry-after": "120" }, "retry_after", 120_000],
  ])("%i with %o asks us to come back later: nothing happened", async (status, headers, code, delayMs) => {
    const error = await failureOf(answering(status, headers));
    expect(error).toMatchObject({ code, detail: { delayMs, upstreamStatus: status } });
    expect(isDefiniteRefusal(error)).toBe(true);
  });

  it.each([
    [409, {}, 2_000],
    [425, { "retry-after": "7" }, 7_000],
  ])("%i with %o says that our key is in progress: come back later, nobody knows yet what happened", async (status, headers, delayMs) => {
    const error = await failureOf(answering(status, headers));
    expect(error).toMatchObject({ code: "in_progress", detail: { delayMs, upstreamStatus: status } });
    expect(isDefiniteRefusal(error)).toBe(false);
  });

  it.each([400, 401, 403, 404, 410, 422])("%i is final: trying again cannot help", async (status) => {
    expect(await failureOf(answering(status))).toMatchObject({ code: "not_retryable", detail: { upstreamStatus: status } });
  });

  it("another 4xx is a refusal that the step's policy may try again", async () => {
    expect(await failureOf(answering(408))).toMatchObject({ code: "upstream_refused" });
  });

  it.each([500, 502, 503])("%i leaves the outcome unknown", async (status) => {
    const error = await failureOf(answering(status));
    expect(error).toMatchObject({ code: "unavailable", detail: { upstreamStatus: status } });
    expect(isDefiniteRefusal(error)).toBe(false);
  });

  it("a broken connection leaves the outcome unknown", async () => {
    const error = await failureOf(new Error("Network connection lost"));
    expect(error).toMatchObject({ code: "unavailable", message: expect.stringContaining("Whether it acted is unknown") });
  });

  it("a redirect is not followed, because it would carry our credential along", async () => {
    const upstream = scripted(answering(302, { location: "https://elsewhere.example.com/" }));
    await expect(braveSearch(upstream).search("tea", { key: "k" })).rejects.toMatchObject({ code: "not_retryable" });
    expect(upstream.requests).toHaveLength(1);
  });

  it("an answer in another format names the field", async () => {
    const server = scripted(Response.json({ did: "did:plc:a", accessJwt: 1 }));
    const post = { rkey: "3k2a", text: "Tea.", createdAt: "2026-10-01T12:00:00.000Z" };
    const error = await blueskySocial(server, "odd.example.com")
      .post(post, { key: "k" })
      .catch((error: unknown) => error);
    expect(error).toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("accessJwt"),
      detail: { issues: [{ path: "accessJwt" }] },
    });
    expect(isDefiniteRefusal(error)).toBe(false);
  });

  it("an answer that is not JSON says so", async () => {
    expect(await failureOf(new Response("<html>"))).toMatchObject({ message: expect.stringContaining("(the whole answer)") });
  });
});

describe("what a message says", () => {
  it("quotes the upstream's words and names the variable to check", async () => {
    const error = await failureOf(Response.json({ error: { message: "Bad token" } }, { status: 401 }));
    expect(error).toMatchObject({ message: "search answered 401 (Bad token). Check SEARCH_TOKEN." });
  });

  it("blots out our credential where the upstream echoes it", async () => {
    const error = await failureOf(new Response("no such token: s3cret-token", { status: 403 }));
    expect(error).toMatchObject({ message: expect.stringContaining("no such token: ***") });
  });

  it("cuts a long quote short", async () => {
    const error = await failureOf(new Response("x".repeat(5_000), { status: 400 }));
    expect((error as Error).message.length).toBeLessThan(250);
  });
});

describe("Retry-After", () => {
  const now = Date.parse("2026-10-01T12:00:00Z");

  it("is read in seconds", () => expect(retryAfterMs("30", now)).toBe(30_000));
  it("is read as an HTTP date", () => expect(retryAfterMs("Thu, 01 Oct 2026 12:01:00 GMT", now)).toBe(60_000));
  it("is now for a date that has passed", () => expect(retryAfterMs("Thu, 01 Oct 2026 11:00:00 GMT", now)).toBe(0));
  it("is never longer than a queue can wait", () => expect(retryAfterMs("999999999", now)).toBe(MAX_RETRY_AFTER_MS));
  it("is ignored where it says nothing", () => expect(retryAfterMs("soon", now)).toBeUndefined());
});
