import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ROOT } from "../../../packages/millrace/cli/local/wrangler.ts";

const DOCS = join(ROOT, "docs");

it("running the commands of one document after another publishes no fact twice, because each document names different facts", () => {
  const stated = readdirSync(DOCS)
    .filter((name) => name.endsWith(".md"))
    .flatMap((document) => {
      const text = readFileSync(join(DOCS, document), "utf8");
      const names = [...text.matchAll(/"fact_id":"([^"…]+)",\s*"entity":"([^"]+)"/g)].map(([, fact, entity]) => `${entity} ${fact}`);
      return [...new Set(names)].map((name) => ({ document, name }));
    });
  expect(new Set(stated.map(({ document }) => document)).size).toBeGreaterThan(2);
  const shared = [...Map.groupBy(stated, ({ name }) => name).values()].filter(({ length }) => length > 1);
  expect(shared).toEqual([]);
});
