import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ALERT_RULES } from "../../packages/millrace/src/alerts/rules.ts";

it("each screen of the console is checked with axe-core, in both themes and at both widths", () => {
  const screens = readFileSync("packages/millrace/console/screens/index.ts", "utf8");
  const names = new Set([...screens.matchAll(/title: "([^"]+)"/g)].map(([, title = ""]) => title.toLowerCase().replace(" ", "-")));
  const tests = readdirSync(import.meta.dirname).filter((file) => file.endsWith(".test.ts"));
  const looks = tests.flatMap((file) =>
    [...readFileSync(join(import.meta.dirname, file), "utf8").matchAll(/expectFit\(\w+, "([^"]+)"\)/g)].map(([, look = ""]) => look),
  );
  expect(names.size).toBeGreaterThan(10);
  const isOf = (name: string) => (look: string) => look === name || look.startsWith(`${name}-`);
  expect([...names].filter((name) => !looks.some(isOf(name)))).toEqual([]);
});

it("the console has a sentence for each alert rule of the engine", () => {
  const words = readFileSync("packages/millrace/console/parts/alert-words.ts", "utf8");
  expect(ALERT_RULES.map(({ name }) => name).filter((name) => !words.includes(`  ${name}: {`))).toEqual([]);
});
