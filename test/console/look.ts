import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { picture } from "./stage.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] } as const;
const WHOLE = process.env.MILLRACE_FULL_SIZE === "true" || process.env.MILLRACE_SCREENSHOTS !== undefined;

/** Each width and each theme once: a theme changes the colours, a width where things stand. Each with each is a matter of a longer run. */
const LOOKS = [
  { width: 1280, colorScheme: "light" },
  ...(WHOLE ? ([{ width: 1280, colorScheme: "dark" }] as const) : []),
  { width: 390, colorScheme: "dark" },
  ...(WHOLE ? ([{ width: 390, colorScheme: "light" }] as const) : []),
] as const;

/** Holds a page as it is shown now against axe-core, once in each theme and at each width, where nothing may scroll sideways; and keeps pictures. */
export async function expectFit(page: Page, name: string): Promise<void> {
  const found: string[] = [];
  for (const { width, colorScheme } of LOOKS) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    await picture(page, `${name}-${width}-${colorScheme}`);
    const seen = `${width} px, ${colorScheme}`;
    const wide = Number(await page.evaluate("document.scrollingElement.scrollWidth"));
    if (wide > width) found.push(`${seen}: ${wide} px wide`);
    for (const fault of await axe(page)) found.push(`${seen}: ${fault}`);
  }
  expect(found).toEqual([]);
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: "light" });
}

/** What axe-core finds. The debugger puts it in, past the page's own policy, which would let nothing in. */
async function axe(page: Page): Promise<string[]> {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(AXE);
  const options = JSON.stringify({ runOnly: RULES, resultTypes: ["violations"], preload: false });
  const { violations } = (await page.evaluate(`axe.run(${options})`)) as AxeResults;
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary = "" }) => `${id}, ${target.join(" ")}: ${failureSummary}`),
  );
}
