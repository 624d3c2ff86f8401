import { limitOf } from "millrace/limits";
import { expect, it, vi } from "vitest";
import { askUpstream } from "../../docs/examples/limit.ts";
import { fresh, probeEnv } from "../harness.ts";

it("in the example of docs/limits-and-rates.md all callers wait after one 429, without further calls of the upstream", async () => {
  const env = probeEnv as unknown as Cloudflare.Env;
  const host = `${fresh("upstream")}.example`;
  const asked = vi
    .spyOn(globalThis, "fetch")
    .mockImplementation(async () => new Response(null, { status: 429, headers: { "Retry-After": "60" } }));
  try {
    expect((await askUpstream(env, `https://${host}/one`)).status).toBe(429);
    const others = await Promise.allSettled([1, 2, 3].map((n) => askUpstream(env, `https://${host}/${n}`)));
    for (const other of others) expect(other).toMatchObject({ status: "rejected", reason: { code: "retry_after" } });
    expect(asked).toHaveBeenCalledTimes(1);
  } finally {
    asked.mockRestore();
  }
  expect((await limitOf(env, `upstream ${host}`, [{ limit: 1, periodMs: 1 }]).tryTake()).taken).toBe(false);
});
