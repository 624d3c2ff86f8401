import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { crm } from "../../src/providers/index.ts";
import { fresh } from "../api/client.ts";
import { crmCalls } from "./embedded.ts";

it("150 callers at once are all served within the CRM's limit: it never has to refuse one", async () => {
  const calls = Array.from({ length: 150 }, () => {
    const key = fresh();
    return crm(env).upsert("contacts", [{ key, properties: { email: `${key}@example.com` } }], { key });
  });
  const outcomes = (await Promise.all(calls)).flat();
  expect(outcomes.filter(({ state }) => state === "done")).toHaveLength(150);
  const { total, refused_by_limit, most_in_10_seconds } = await crmCalls();
  expect({ total, refused_by_limit }).toEqual({ total: 150, refused_by_limit: 0 });
  expect(most_in_10_seconds).toBeLessThanOrEqual(100);
});
