import { applyD1Migrations, type D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { crashEverywhere } from "millrace/testing";
import { beforeAll, expect, it } from "vitest";
import { catalog, greet } from "./worker.ts";

const own = env as typeof env & { TEST_MIGRATIONS: D1Migration[] };
beforeAll(() => applyD1Migrations(own.DB, own.TEST_MIGRATIONS));

const SELECT = "SELECT name FROM greetings WHERE tenant_id = ?1";

it("greets once, wherever the process dies", async () => {
  const compare = async ({ tenantId }: { tenantId: string }) => (await own.DB.prepare(SELECT).bind(tenantId).all()).results;
  const { boundaries } = await crashEverywhere(greet, { name: "Ada" }, { catalog, compare });
  expect(boundaries.map(({ status }) => status)).toEqual(boundaries.map(() => "complete"));
});
