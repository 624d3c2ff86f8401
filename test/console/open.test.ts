import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { because, openNext, press, tabTo } from "./keyboard.ts";
import { forgive, person } from "./stage.ts";
import { articles, breakPages } from "./work.ts";

const live = (page: Page, state: string) => page.getByRole("button", { name: new RegExp(`^${state}`) });
const rows = (page: Page) => page.locator("tbody tr");

it("two tabs of one browser both receive updates: an action in one tab is shown in the other", async () => {
  const ada = await person();
  const { mend } = await breakPages(ada);
  await articles(ada, ["cortado"], { each: 3 });
  await mend();
  const one = await ada.open("instances?status=errored");
  const other = await ada.open("instances?workflow=publish-article", { beside: one });
  await Promise.all([one, other].map((page) => live(page, "live").waitFor()));
  await rows(other).getByText("errored", { exact: true }).waitFor();
  await openNext(one);
  await tabTo(one.getByRole("button", { name: "Retry", exact: true }));
  await press(one, "Enter");
  await one.getByRole("dialog").getByText("runs", { exact: true }).waitFor();
  await because(one, "seen by two");
  await rows(other).getByText("complete", { exact: true }).waitFor();
  await one.locator(".facts").getByText("complete", { exact: true }).waitFor();
});

it("a lost connection is shown, with the age of the data, and no row is missing after it is restored", async () => {
  const ada = await person();
  const page = await ada.open("instances");
  await page.getByText("No instance yet").waitFor();
  await live(page, "live").waitFor();
  await page.context().setOffline(true);
  await live(page, "no connection").waitFor();
  const age = async () => Number.parseInt((await page.locator(".live .age").textContent()) ?? "", 10);
  await articles(ada, ["macchiato"]);
  await expect.poll(age).toBeGreaterThanOrEqual(2);
  expect(await page.getByText("No instance yet").isVisible()).toBe(true);
  await page.context().setOffline(false);
  await live(page, "live").waitFor();
  await expect.poll(() => rows(page).count()).toBe(4);
  forgive(page, /ERR_INTERNET_DISCONNECTED/);
});

it("the console closes and reopens a stream without data for 40 seconds; a stream that ends at once is requested again after a second", async () => {
  const ada = await person();
  const page = await ada.open("instances");
  await live(page, "live").waitFor();
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 1000);
  await press(page, "p", "p");
  await live(page, "live").waitFor();
  await page.clock.runFor(39_000);
  await live(page, "live").waitFor();
  const state = async () => {
    await page.clock.runFor(500);
    return page.locator(".live").getAttribute("data-state");
  };
  await expect.poll(state).toBe("off");
  await page.clock.runFor(1000);
  await live(page, "live").waitFor();

  let asked = 0;
  await page.route("**/v1/stream", (route) => {
    asked++;
    return route.fulfill({ contentType: "text/event-stream", body: "" });
  });
  await press(page, "p", "p");
  await expect.poll(() => asked).toBe(1);
  await live(page, "connecting").waitFor();
  // The pause begins once the page has detected the end: from then on it is one second of the page's clock.
  await page.clock.runFor(900);
  expect(asked).toBe(1);
  const askedAgain = async () => {
    await page.clock.runFor(100);
    return asked;
  };
  await expect.poll(askedAgain).toBeGreaterThan(1);
  await page.unrouteAll({ behavior: "wait" });
  const isLive = async () => {
    await page.clock.runFor(1000);
    return live(page, "live").isVisible();
  };
  await expect.poll(isLive, { timeout: 30_000 }).toBe(true);
});

it("when a token is revoked while the page is open, the page asks for a new token, keeps its place, and receives updates again", async () => {
  const ada = await person();
  await articles(ada, ["doppio"]);
  const page = await ada.open("instances?workflow=research-keyword&status=complete");
  await expect.poll(() => rows(page).count()).toBe(1);
  const { items } = await ada.ask<{ items: { id: string }[] }>("GET", "/v1/tokens");
  for (const { id } of items) if (!ada.token.includes(id)) await ada.ask("DELETE", `/v1/tokens/${id}?reason=over`);
  // The stream does not have the new row yet: the list detects new rows by the stream.
  await articles(ada, ["lungo"]);
  const again = page.getByRole("dialog", { name: "Sign in again" });
  await again.waitFor();
  expect(await rows(page).count()).toBe(1);
  await page.keyboard.insertText(ada.token);
  await press(page, "Enter");
  await again.waitFor({ state: "hidden" });
  await expect.poll(() => rows(page).count()).toBe(2);
  expect(new URL(page.url()).search).toBe("?workflow=research-keyword&status=complete");
  await live(page, "live").waitFor();
  forgive(page, /401/);
});
