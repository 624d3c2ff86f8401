import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { forgive, inDatabase, type Person, person } from "./stage.ts";

/** Adds this number of new instances to a tenant, without executing them. */
async function comes(by: Person, count: number, status = "complete"): Promise<void> {
  await inDatabase((database) => {
    const add = database.prepare(`
      INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint,
        envelope, queue, status, accepted_at, updated_at)
      VALUES (?1, ?2, 'research-keyword', 'research.requested', ?1, 'job', 'test', ?1, 'f', '{}', 'gatherfeed-commands', ?3, ?4, ?4)`);
    const now = Date.now();
    database.exec("BEGIN IMMEDIATE");
    for (let nth = 0; nth < count; nth++) add.run(randomBytes(16).toString("hex"), by.tenant, status, now - count + nth);
    database.exec("COMMIT");
  });
}

/** Delays responses of a page's list until they are released. */
async function slowed(page: Page, matching: (url: URL) => boolean) {
  let wait = () => Promise.resolve();
  await page.route(
    (url) => matching(url),
    async (route) => {
      await wait();
      await route.continue().catch(() => {});
    },
  );
  let free = () => {};
  return {
    by: (ms: number) => {
      wait = () => sleep(ms);
    },
    hold: () => {
      const held = new Promise<void>((resolve) => {
        free = resolve;
      });
      wait = () => held;
    },
    release: () => {
      wait = () => Promise.resolve();
      free();
    },
  };
}

const isList = ({ pathname }: URL) => pathname === "/v1/instances";
const rowsOf = (page: Page) => page.getByRole("table", { name: "Instances" }).locator("tbody tr");
const age = async (page: Page) => Number.parseInt((await page.locator(".live .age").textContent()) || "0", 10);

it("a list is updated at any rate of changes and any delay of responses, and the page shows the age of its data", async () => {
  const ada = await person();
  await comes(ada, 3);
  const page = await ada.open("settings");
  const list = await slowed(page, isList);
  list.by(1500);
  const over = new AbortController();
  const coming = (async () => {
    while (!over.signal.aborted) {
      await comes(ada, 1);
      await sleep(250);
    }
  })();
  await page.getByRole("link", { name: "Instances" }).click();
  await expect.poll(() => rowsOf(page).count(), { timeout: 10_000 }).toBeGreaterThan(2);

  list.hold();
  await expect.poll(() => age(page), { timeout: 15_000 }).toBeGreaterThan(3);
  over.abort();
  await coming;
  const before = await rowsOf(page).count();
  list.release();
  await expect.poll(() => rowsOf(page).count()).toBeGreaterThan(before);
  await expect.poll(() => age(page)).toBeLessThan(3);
});

it("Show more leaves no gap if many rows were added meanwhile, and shows no row of the earlier list if the filters changed", async () => {
  const ada = await person();
  await comes(ada, 60);
  const page = await ada.open("instances");
  await page.getByRole("button", { name: "Show more" }).click();
  await page.getByText("60 instances", { exact: true }).waitFor();
  await comes(ada, 10);
  await page.getByText("70 instances", { exact: true }).waitFor();

  const list = await slowed(page, isList);
  list.hold();
  await comes(ada, 70);
  await sleep(1000);
  list.release();
  await page.getByText("There are more new instances than one page shows.").waitFor();
  await page.getByText("70 instances", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Show the newest" }).click();
  await page.getByText("50 instances shown; there are more").waitFor();

  list.hold();
  await page.getByRole("button", { name: "Show more" }).click();
  await page.getByLabel("Status").selectOption("errored");
  list.release();
  await page.getByText("No instance matches these filters").waitFor();
  await sleep(300);
  expect(await rowsOf(page).count()).toBe(0);
});

it("a failed GET request of the console is retried automatically, and a request without a response times out", async () => {
  const ada = await person();
  const page = await ada.open("settings/schedules");
  await page.clock.install();
  let isGone = true;
  await page.route(isPath("/v1/locks"), (route) => (isGone ? route.abort() : route.continue()));
  await page.getByRole("link", { name: "Locks" }).click();
  await page.getByText("No answer").waitFor();
  isGone = false;
  await page.clock.fastForward(6000);
  await page.getByText("No answer").waitFor({ state: "hidden" });
  forgive(page, /ERR_FAILED/);
});

const isPath = (path: string) => (url: URL) => url.pathname === path;
