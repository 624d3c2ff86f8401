import { env } from "cloudflare:workers";
import { MillraceError } from "millrace";
import { expect, it } from "vitest";
import { type CrmOutcome, crm } from "../../src/providers/index.ts";
import { fresh } from "../api/client.ts";
import { crmCalls } from "./embedded.ts";

const upserts = () => crmCalls("contacts/batch/upsert");

it("150 concurrent callers are all served within the CRM's limit, and the CRM refuses none", async () => {
  /** A step's loop: it returns at the requested time. */
  const upsert = async (key: string): Promise<CrmOutcome[]> => {
    try {
      return await crm(env, "acme").upsert("contacts", [{ key, properties: { email: `${key}@example.com` } }], { key });
    } catch (error) {
      if (!(error instanceof MillraceError) || error.code !== "retry_after") throw error;
      await scheduler.wait(error.detail.delayMs ?? 0);
      return upsert(key);
    }
  };
  const [before, { refused_by_limit: refusedBefore }] = [await upserts(), await crmCalls()];
  const outcomes = (await Promise.all(Array.from({ length: 150 }, () => upsert(fresh())))).flat();
  expect(outcomes.filter(({ state }) => state === "done")).toHaveLength(150);
  // Syncs of other tests may run concurrently.
  expect((await upserts()).total - before.total).toBeGreaterThanOrEqual(150);
  const { refused_by_limit, most_in_10_seconds } = await crmCalls();
  expect(refused_by_limit - refusedBefore).toBe(0);
  expect(most_in_10_seconds).toBeLessThanOrEqual(100);
}, 120_000);
