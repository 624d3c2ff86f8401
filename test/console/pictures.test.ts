import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, it, onTestFinished } from "vitest";
import { HISTOGRAMS } from "../../packages/millrace/src/observe/metrics/series.ts";
import { dayLink } from "./day/day.ts";
import { because } from "./keyboard.ts";
import { inDatabase, person, stage } from "./stage.ts";
import { articles, breakPages } from "./work.ts";

// To take the screenshots of docs/console.md: MILLRACE_SCREENSHOTS=docs/console npx vitest run --project node test/console/pictures.test.ts

const FOLDER = process.env.MILLRACE_SCREENSHOTS;
/** Text stays sharp at this quality, at a third of the size of a PNG. */
const QUALITY = 57;

/** Stores a screenshot of the page once this is visible; dark or narrow if the name contains that word. */
async function keep(page: Page, name: string, shown: string | RegExp): Promise<void> {
  if (name.endsWith("-390")) await page.setViewportSize({ width: 390, height: 844 });
  if (name.endsWith("-dark")) await page.emulateMedia({ colorScheme: "dark" });
  await page.getByText(shown).filter({ visible: true }).first().waitFor();
  await page.locator(".live[data-state=live]").waitFor();
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
  await session.detach();
  mkdirSync(FOLDER ?? "", { recursive: true });
  writeFileSync(join(FOLDER ?? "", `${name}.webp`), Buffer.from(data, "base64"));
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: "light" });
}

/** Opens a path of the console without a reload, so that the page keeps its token. */
async function go(page: Page, path: string): Promise<void> {
  await page.evaluate(`history.pushState(null, "", "/console/${path}"); dispatchEvent(new PopStateEvent("popstate"))`);
}

async function opened(link: string): Promise<Page> {
  const context = await (await stage()).chrome.newContext({ viewport: { width: 1280, height: 800 } });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  await page.goto(link);
  return page;
}

it.runIf(FOLDER)("screenshots of an operator's screens, with the data of a shop's day", async () => {
  const page = await opened(await dayLink());
  const rows = page.locator("tbody tr");
  await page.getByRole("link", { name: "Alerts", exact: true }).waitFor();
  for (const name of ["now", "now-dark", "now-390"]) await keep(page, name, /^p50/);
  for (const name of ["instances", "instances-390"]) {
    await go(page, "instances");
    await keep(page, name, "follow-parcel");
  }
  await go(page, "instances?status=errored&workflow=ship-order");
  await rows.first().getByRole("link").first().click();
  for (const name of ["instance", "instance-dark", "instance-390"]) await keep(page, name, /book courier failed/);
  await go(page, "dead-letters");
  await keep(page, "dead-letters", /payload.pieces is missing/);
  const there = { position: { x: 4, y: 4 } };
  await rows.filter({ hasText: "pieces is missing" }).click(there);
  await page.getByRole("table", { name: "Dead letters" }).locator("tbody tr").first().click(there);
  await keep(page, "dead-letter", /^payload.pieces$/);
  await go(page, "to-do/unknown-outcomes");
  await keep(page, "to-do", "send mail");
  await go(page, "settings/tokens");
  await keep(page, "settings", "Mint a token");

  await go(page, "");
  await page.getByRole("link", { name: /book courier/ }).click();
  await page.getByRole("button", { name: /^Retry, close or run again all/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Retry 20 instances" }).waitFor();
  await because(page, "the courier's key is renewed");
  await page.getByRole("heading", { name: "Retry 20 instances" }).waitFor();
  await keep(page, "bulk-action", /^complete$/);
  await go(page, "actions");
  await keep(page, "actions", "Retry 20 instances");
  await go(page, "audit");
  await keep(page, "audit", "the courier's key is renewed");

  // Counts arrive within 30 s.
  await go(page, "queues");
  const out = rows.filter({ hasText: "order-commands" }).locator("td").nth(4);
  await expect.poll(() => out.textContent(), { timeout: 90_000 }).not.toBe("0");
  await keep(page, "queues", "grace");
  await go(page, "messages");
  await keep(page, "messages", "order.ship");
});

it.runIf(FOLDER)("screenshots of a developer's screens, from the first sign-in", async () => {
  const ada = await person({ tenant: "acme" });
  const page = await ada.open();
  await keep(page, "first-minute", "Press Retry");
  await page.getByRole("link", { name: "Open a command that fails once" }).click();
  await keep(page, "send", "The key is free");
  const outage = await breakPages(ada);
  await articles(ada, ["cold brew"], { each: 3 });
  await outage.mend();
  await articles(ada, ["flat white"]);
  await go(page, "catalog");
  await keep(page, "catalog", "Observed steps");
  await go(page, "jobs/spring");
  for (const name of ["job", "job-dark"]) await keep(page, name, "post-to-social");
  expect(page.url()).toContain("jobs/spring");
  await addHours("publish-article");
  await go(page, "metrics?span=hour&workflow=publish-article");
  await keep(page, "metrics", /^Step duration$/);
});

/** Adds counts of a workflow's last two days. */
async function addHours(workflow: string): Promise<void> {
  const { buckets } = HISTOGRAMS.step_duration_seconds;
  const hour = Math.floor(Date.now() / 3_600_000) * 3_600_000;
  await inDatabase((database) => {
    for (let ago = 1; ago < 48; ago++) {
      const counts = { complete: 90 + 40 * Math.sin(ago / 4), terminated: ago % 3, errored: ago > 9 && ago < 14 ? 45 : ago % 5 };
      const took = buckets.map((_, at) => (at === 4 + (ago % 2) ? 90 : at === (ago > 9 && ago < 14 ? 9 : 7) ? 9 : 0));
      const body = {
        instances_ended_total: Object.fromEntries(
          Object.entries(counts).map(([status, count]) => [JSON.stringify([workflow, status, ""]), Math.round(count)]),
        ),
        step_duration_seconds: { [JSON.stringify([workflow, "put page"])]: [...took, 0, 8] },
      };
      database
        .prepare("INSERT OR REPLACE INTO millrace_counts (span, at, body) VALUES ('hour', ?, ?)")
        .run(hour - ago * 3_600_000, JSON.stringify(body));
    }
  });
}
