import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";

it("`npm start` lists an existing document for every system", () => {
  const { welcome }: { welcome: string[] } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).millrace.dev;
  const documents = welcome.flatMap((line) => /docs\/\w+\.md/.exec(line) ?? []);
  expect(documents.length).toBeGreaterThan(10);
  expect(documents.filter((document) => !existsSync(join(ROOT, document)))).toEqual([]);
});
