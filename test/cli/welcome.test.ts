import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";

it("`npm start` shows a document and a demo of every system, and each exists", () => {
  const { welcome }: { welcome: string[] } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).millrace.dev;
  const named = welcome.flatMap((line) => [...line.matchAll(/(docs\/\w+\.md)(?: +npm run demo -- (\w+))?$/g)]);
  const [, stories = ""] = /STORIES[^{]* = \{([^}]+)\}/.exec(readFileSync(join(ROOT, "packages/millrace/cli/demo.ts"), "utf8")) ?? [];
  const demos = [...stories.matchAll(/(\w+)(?:: \w+)?,/g)].map(([, name]) => name);
  expect(named.flatMap(([, , demo]) => demo ?? [])).toEqual(demos);
  for (const [, document = ""] of named) expect(existsSync(join(ROOT, document)), document).toBe(true);
});
