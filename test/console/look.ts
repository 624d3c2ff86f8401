import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults, RunOptions } from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { picture } from "./stage.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES: RunOptions["runOnly"] = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] };
/** Checks that depend on a page's colours or layout; all other checks depend on its content, which no width and no theme changes. */
const BY_LOOK = ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"];
const WHOLE = process.env.MILLRACE_FULL_SIZE === "true" || process.env.MILLRACE_SCREENSHOTS !== undefined;

/** Each width and each theme once: a theme changes the colours, a width the layout. A longer run covers all combinations. */
const LOOKS = [
  { width: 1280, colorScheme: "light", rules: RULES },
  ...(WHOLE ? ([{ width: 1280, colorScheme: "dark", rules: RULES }] as const) : []),
  { width: 390, colorScheme: "dark", rules: WHOLE ? RULES : BY_LOOK },
  ...(WHOLE ? ([{ width: 390, colorScheme: "light", rules: RULES }] as const) : []),
] as const;

/** The page and the dialogs with content that is wider than their box. */
const TOO_WIDE = `[document.scrollingElement, ...document.querySelectorAll("dialog[open]")]
  .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.tagName + ", " + one.scrollWidth + " px wide")`;

/**
 * Checks the shown page with axe-core, once in each theme and at each width, asserts that nothing scrolls sideways, and stores
 * screenshots.
 */
export async function expectFit(page: Page, name: string): Promise<void> {
  const found: string[] = [];
  for (const { width, colorScheme, rules } of LOOKS) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    await picture(page, `${name}-${width}-${colorScheme}`);
    const seen = `${width} px, ${colorScheme}`;
    const wide = (await page.evaluate(TOO_WIDE)) as string[];
    found.push(...wide.map((one) => `${seen}: ${one}`));
    for (const fault of await axe(page, rules)) found.push(`${seen}: ${fault}`);
  }
  expect(found).toEqual([]);
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: "light" });
}

/** The violations that axe-core reports. The debugger injects axe-core, because the page's own policy permits no foreign script. */
async function axe(page: Page, rules: RunOptions["runOnly"]): Promise<string[]> {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(AXE);
  const options = JSON.stringify({ runOnly: rules, resultTypes: ["violations"], preload: false });
  const { violations } = (await page.evaluate(`axe.run(${options})`)) as AxeResults;
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary = "" }) => `${id}, ${target.join(" ")}: ${failureSummary}`),
  );
}
