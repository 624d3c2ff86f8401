import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { expectFit } from "./look.ts";
import { forgive, person } from "./stage.ts";

interface Runs {
  items: { state: string; reason: string }[];
}

/** Passes a request on, and drops its response. */
const losing = (page: Page, path: string) =>
  page.route(path, async (route) => {
    if (route.request().method() !== "POST") return route.fallback();
    await route.fetch();
    await route.abort();
  });

it("an action is executed once although its response is lost or its dialog is closed, for any number of repeats from any page", async () => {
  const ada = await person();
  const command = { type: "brand.audit", payload: { brand: "acme" } };
  await ada.ask("PUT", "/v1/schedules/weekly", { cron: "0 9 * * 1", command, reason: "every Monday" });
  const page = await ada.open("settings/schedules");
  const dialog = page.getByRole("dialog", { name: "Run now: weekly" });
  const confirm = dialog.getByRole("button", { name: "Run now" });
  const open = () => page.getByRole("button", { name: "Run now", exact: true }).click();
  const keys: (string | undefined)[] = [];
  page.on("request", (request) => request.url().endsWith("/run") && keys.push(request.headers()["idempotency-key"]));

  await losing(page, "**/run");
  await open();
  await dialog.getByLabel("Reason (kept in the audit)").fill("to try it");
  await confirm.click();
  await dialog.getByText("No answer came, so the result is unknown.").waitFor();
  await page.keyboard.press("Escape");
  await page.unroute("**/run");

  let answer = () => {};
  const held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route("**/run", (route) => held.then(() => route.continue()));
  await open();
  await dialog.getByText("Sending it again repeats the same action").waitFor();
  await confirm.click();
  await page.keyboard.press("Escape");
  await dialog.getByText("The request was sent; the answer is still pending.").waitFor();
  expect(await dialog.getByLabel("Reason (kept in the audit)").inputValue()).toBe("to try it");
  await expectFit(page, "act-sent");
  await dialog.getByRole("button", { name: "Close without waiting" }).click();
  await dialog.waitFor({ state: "hidden" });
  answer();
  await page.getByText("Run now: weekly: done.").waitFor();
  await page.getByText("Accepted. Open the instance").waitFor();
  expect(keys).toEqual([keys[0], keys[0]]);
  const { items } = await ada.ask<Runs>("GET", "/v1/schedules/weekly/runs");
  expect(items.map(({ reason }) => reason)).toEqual(["to try it"]);

  // After the response it is another action the next time.
  await page.unroute("**/run");
  await open();
  await dialog.getByLabel("Reason (kept in the audit)").fill("once more");
  await confirm.click();
  await expect.poll(async () => (await ada.ask<Runs>("GET", "/v1/schedules/weekly/runs")).items.length).toBe(2);
  expect(new Set(keys).size).toBe(2);
  forgive(page, /ERR_FAILED/);
});

it("a dialog that could not fetch its preview retries automatically, and at once on request", async () => {
  const ada = await person();
  await ada.ask("POST", "/v1/commands", {
    type: "research.requested",
    delay_seconds: 3600,
    payload: { brand: "acme", keyword: ada.tenant },
  });
  const page = await ada.open("instances?status=accepted");
  await page.route("**/v1/bulk-actions", (route) => route.abort());
  await page.getByRole("button", { name: "Cancel or pause all that are accepted …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("No answer.").waitFor();
  await page.unroute("**/v1/bulk-actions");
  await dialog.getByRole("button", { name: "Cancel 1 instance" }).waitFor();
  await page.keyboard.press("Escape");

  const unknown = { code: "unauthorized", title: "Not known", detail: "It has ended." };
  await page.route("**/v1/bulk-actions", (route) => route.fulfill({ status: 401, json: unknown }));
  await page.getByRole("button", { name: "Cancel or pause all that are accepted …" }).click();
  const again = page.getByRole("dialog", { name: "Sign in again" });
  await again.getByLabel("Your token").fill(ada.token);
  await page.unroute("**/v1/bulk-actions");
  await page.keyboard.press("Enter");
  await again.waitFor({ state: "hidden" });
  await dialog.getByRole("button", { name: "Cancel 1 instance" }).waitFor();
  await page.keyboard.press("Escape");

  await page.route("**/v1/bulk-actions", (route) =>
    route.fulfill({ status: 403, json: { code: "forbidden", title: "No", detail: "No." } }),
  );
  await page.getByRole("button", { name: "Cancel or pause all that are accepted …" }).click();
  await dialog.getByRole("button", { name: "Try again" }).waitFor();
  await page.unroute("**/v1/bulk-actions");
  await dialog.getByRole("button", { name: "Try again" }).click();
  await dialog.getByRole("button", { name: "Cancel 1 instance" }).waitFor();
  forgive(page, /ERR_FAILED|401|403/);
});

it("a token whose creation lost its response is not created twice: the page warns that an unseen token may exist", async () => {
  const ada = await person();
  const page = await ada.open("settings/tokens");
  await losing(page, "**/v1/tokens");
  await page.getByRole("button", { name: "Mint a token" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: /^actor/ }).fill("grace");
  await dialog.getByLabel("Reason (kept in the audit)").fill("a new colleague");
  await dialog.getByRole("button", { name: "Mint" }).click();
  await page.getByText(/Mint a token: the request of \d\d:\d\d:\d\d may have succeeded, but its result cannot be shown/).waitFor();
  await dialog.waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Revoke the token of grace" }).waitFor();
  forgive(page, /ERR_FAILED/);
});
