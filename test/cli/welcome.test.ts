import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";

const source = (name: string) => readFileSync(join(ROOT, "packages/millrace/cli", name), "utf8");

it("`npm start` leads to a document and a demo of every system, and each is there", () => {
  const named = [...source("start.ts").matchAll(/"(docs\/\w+\.md)"(?:, "(\w+)")?\]/g)];
  const [, stories = ""] = /STORIES[^{]* = \{([^}]+)\}/.exec(source("demo.ts")) ?? [];
  const demos = [...stories.matchAll(/(\w+)(?:: \w+)?,/g)].map(([, name]) => name);
  expect(named.flatMap(([, , demo]) => demo ?? [])).toEqual(demos);
  for (const [, document = ""] of named) expect(existsSync(join(ROOT, document)), document).toBe(true);
});

it("`npm start` shows the address of a page only where the engine serves the pages itself", () => {
  expect(source("start.ts").match(/heading\("Read it"\)/g)).toHaveLength(1);
  expect(source("start.ts")).toMatch(/servesPages\(.+\) \? `\$\{heading\("Read it"\)\}/);
});
