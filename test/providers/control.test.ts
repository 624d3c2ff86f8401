import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { search } from "../../src/providers/index.ts";
import { fresh } from "../api/client.ts";
import { inject, ledger } from "./embedded.ts";

afterEach(() => inject());

describe("the embedded ledger", () => {
  it("the embedded ledger lists each call with its key, its subject and its effect, in order", async () => {
    const tea = `rooibos ${fresh()}`;
    await search(env).search(tea, { key: "k1" });
    const { calls, totals } = await ledger({ upstream: "search", match: tea });
    expect(calls).toEqual([
      {
        id: expect.any(Number),
        upstream: "search",
        key: null,
        subject: tea,
        at: expect.stringMatching(/^\d{4}-.*Z$/),
        outcome: "charged",
      },
    ]);
    expect(totals.text.charged).toBe(0);
  });

  it("the embedded upstreams apply fault rules in order, each for its number of calls", async () => {
    await inject(
      { upstream: "search", match: "mint", status: 429, remaining: 1, retryAfter: 5 },
      { upstream: "search", match: "mint", status: 500, remaining: 1 },
    );
    const ask = () => search(env).search("mint", { key: "k" });
    await expect(ask()).rejects.toMatchObject({ code: "retry_after" });
    await expect(ask()).rejects.toMatchObject({ code: "unavailable" });
    await expect(ask()).resolves.toHaveLength(5);
  });

  it("the embedded upstreams refuse fault rules that they do not support", async () => {
    const answer = await env.UPSTREAMS.fetch("https://control.embedded/faults", { method: "PUT", body: '[{"upstream":"mail"}]' });
    expect(answer.status).toBe(422);
    expect(await answer.text()).toContain("upstream");
  });
});
