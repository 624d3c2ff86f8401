import { applyD1Migrations, type D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { crashEverywhere, recordingUpstream } from "millrace/testing";
import { beforeAll, expect, it } from "vitest";
import { welcome } from "./welcome.ts";
import { catalog } from "./worker.ts";

const own = env as typeof env & { TEST_MIGRATIONS: D1Migration[] };
beforeAll(() => applyD1Migrations(own.DB, own.TEST_MIGRATIONS));

it("a customer gets one account, and at most one mail, wherever the process dies", async () => {
  using upstream = recordingUpstream({
    // A GET lists the accounts of a customer.
    answer({ method, url }, done) {
      const customer = new URL(url).searchParams.get("customer");
      const accounts = done.filter((one) => one.url.endsWith("/accounts") && JSON.parse(one.body).customer === customer);
      return Response.json(method === "GET" ? accounts.map(() => ({ id: "A-1" })) : { id: "A-1" });
    },
  });
  const input = { customer_id: "ada", email: "ada@example.com" };
  const { boundaries } = await crashEverywhere(welcome, input, { catalog, upstream });
  expect(boundaries.length).toBeGreaterThan(10);
});
