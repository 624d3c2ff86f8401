import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import type { AxeResults, RunOptions } from "axe-core";
import type { Page, Route } from "playwright-core";
import { startChrome } from "./chrome.ts";

// A browser's findings about pages: at each width whether they scroll sideways, and the findings of axe-core in the light and in the dark
// theme. Each request gets the Worker's response from a test, with its headers; a request without a prepared response is a finding, as is
// any other unexpected action of a page. To store a screenshot of each: MILLRACE_SCREENSHOTS=folder npx vitest run --project app
// test/outside/pages.test.ts

/** A page to check: its URL, and its text once it is rendered. */
interface Visit {
  path: string;
  shows: string;
}

/** Visits by name, and the responses of the Worker by path and query. */
interface ToLookAt {
  origin: string;
  visits: Record<string, Visit>;
  answers: Record<string, { status: number; headers: Record<string, string>; body: string }>;
}

const WHOLE = process.env.MILLRACE_FULL_SIZE === "true" || process.env.MILLRACE_SCREENSHOTS !== undefined;
const WIDTHS = [320, 390, 1280];
/** The checks of axe-core: each theme once, narrow and wide. A theme changes the colours, a width the layout. */
const LOOKS = [
  { width: 390, colorScheme: "dark" },
  { width: 1280, colorScheme: "light" },
] as const;
const EVERY_LOOK = WIDTHS.flatMap((width) => (["light", "dark"] as const).map((colorScheme) => ({ width, colorScheme })));
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const { origin, visits, answers } = (await json(process.stdin)) as ToLookAt;
const browser = await startChrome();
const context = await browser.newContext();
// A timeout on a busy machine is not a finding.
context.setDefaultTimeout(120_000);
const found: Record<string, string[]> = {};
for (const [name, visit] of Object.entries(visits)) found[name] = await look(name, visit);
await browser.close();
console.log(JSON.stringify(found));

async function look(name: string, { path, shows }: Visit): Promise<string[]> {
  const page = await context.newPage();
  const findings = new Set<string>();
  page.on("console", (said) => ["error", "warning"].includes(said.type()) && findings.add(`console: ${said.text()}`));
  page.on("pageerror", (error) => findings.add(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    findings.add(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  await page.route("**", (route) => answer(route, findings));
  await page.goto(`${origin}${path}`);
  await page.getByText(shows).first().waitFor();
  await page.evaluate(AXE);

  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 800 });
    for (const wide of await tooWide(page)) findings.add(`${width} px: sideways, ${wide}`);
  }
  for (const { width, colorScheme } of WHOLE ? EVERY_LOOK : LOOKS) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    for (const fault of await axe(page)) findings.add(`${width} px, ${colorScheme}: ${fault}`);
    await picture(page, `${name}-${width}-${colorScheme}`);
  }
  await page.close();
  return [...findings];
}

function answer(route: Route, findings: Set<string>): Promise<void> {
  const url = route.request().url().replace(/#.*/, "");
  const known = url.startsWith(origin) ? answers[url.slice(origin.length)] : undefined;
  if (known) return route.fulfill(known);
  findings.add(`request: ${url}`);
  return route.abort();
}

/** The element that makes a page scroll sideways, if any. */
function tooWide(page: Page): Promise<string[]> {
  return page.evaluate(`(() => {
    const width = document.scrollingElement.scrollWidth;
    const last = [...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > innerWidth).at(-1);
    return width > innerWidth ? [width + " px: " + last?.outerHTML.slice(0, 200)] : [];
  })()`);
}

async function axe(page: Page): Promise<string[]> {
  const options: RunOptions = { runOnly: { type: "tag", values: RULES }, resultTypes: ["violations"], preload: false };
  // In a page with a sandbox that runs no scripts timers do not run either, and axe-core waits for timers.
  const { violations }: AxeResults = await page.evaluate(`(() => {
    const after = setTimeout;
    window.setTimeout = (then, ms = 0) => (ms > 100 ? after(then, ms) : void Promise.resolve().then(then));
    return axe.run(${JSON.stringify(options)}).finally(() => { window.setTimeout = after; });
  })()`);
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary = "" }) => `${id}, ${target.join(" ")}: ${failureSummary.replaceAll(/\s+/g, " ")}`),
  );
}

async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env.MILLRACE_SCREENSHOTS;
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name.replaceAll(/\W+/g, "-")}.png`), fullPage: true });
}
