import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { because, press } from "./keyboard.ts";
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

it("the OpenAPI document is loaded when the pointer enters an action's button, and once", async () => {
  const ada = await person();
  const page = await ada.open("settings/tokens");
  const loads: string[] = [];
  page.on("request", (request) => request.url().endsWith("/openapi.json") && loads.push(request.url()));
  const mint = page.getByRole("button", { name: "Mint a token" });
  await mint.waitFor();
  expect(loads).toEqual([]);
  await mint.hover();
  await expect.poll(() => loads.length).toBe(1);
  await mint.click();
  await page.getByRole("dialog").getByText("Enter actor.").waitFor();
  expect(loads.length).toBe(1);
});

it("a confirmation before the preview is shown sends nothing and says so, with Enter and with Ctrl+Enter", async () => {
  const ada = await person();
  const command = { type: "research.requested", delay_seconds: 3600, payload: { brand: "acme", keyword: ada.tenant } };
  await ada.ask("POST", "/v1/commands", command);
  const page = await ada.open("instances?status=accepted");
  let sent = 0;
  let answer = () => {};
  let held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route("**/v1/bulk-actions", (route) => {
    sent++;
    return held.then(() => route.continue());
  });
  await page.getByRole("button", { name: "Cancel or pause all that are accepted …" }).click();
  const dialog = page.getByRole("dialog");
  const early = dialog.getByRole("region", { name: "Preview" }).getByText("The request was not sent: the preview is still loading.");
  await dialog.getByLabel("Reason (kept in the audit)").fill("called off");
  await dialog.getByText("Loading the preview …").waitFor();
  await press(page, "Enter");
  await early.waitFor();
  await expectFit(page, "act-early");
  answer();
  await dialog.getByRole("button", { name: "Cancel 1 instance" }).waitFor();
  expect(await early.count()).toBe(0);

  held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await dialog.getByRole("combobox", { name: /^verb/ }).selectOption("pause");
  await dialog.getByText("Loading the preview …").waitFor();
  await dialog.getByLabel("Reason (kept in the audit)").focus();
  await press(page, "Control+Enter");
  await early.waitFor();
  await expect.poll(() => sent).toBe(2);
  answer();
  await because(page, "called off");
  await page.getByRole("heading", { name: "Pause 1 instance" }).waitFor();
});

it("the dialogs of actions name their fields in words and explain them without terms of the API", async () => {
  const ada = await person();
  const command = { type: "brand.audit", payload: { brand: "acme" } };
  await ada.ask("PUT", "/v1/schedules/weekly", { cron: "0 9 * * 1", command, reason: "every Monday" });
  await ada.ask("POST", "/v1/commands", {
    ...{ type: "research.requested", delay_seconds: 3600 },
    payload: { brand: "acme", keyword: ada.tenant },
  });
  const page = await ada.open();
  const dialog = page.getByRole("dialog");
  for (const [path, name] of [
    ["settings/schedules", "Create a schedule"],
    ["settings/schedules", "Change"],
    ["settings/schedules", "Run now"],
    ["settings/tokens", "Mint a token"],
    ["catalog/workflow%20research-keyword", "Pause"],
    ["instances?status=accepted", /^Cancel or pause all/],
  ] as const) {
    await page.evaluate(`history.pushState(null, "", "/console/${path}"); dispatchEvent(new PopStateEvent("popstate"))`);
    await page.locator("main").getByRole("button", { name, exact: true }).first().click();
    await dialog.locator("form.reason").waitFor();
    for (const options of await dialog.getByText("Options", { exact: true }).all()) await options.click();
    const said = await dialog.locator("> p, .field > span, .check > span, legend").allTextContents();
    expect(said.filter((one) => /^\w+_|Idempotency-Key|\/v1\/|dry run|\b(boolean|integer|string|array|object)\b/i.test(one))).toEqual([]);
    await press(page, "Escape");
    await dialog.waitFor({ state: "hidden" });
  }
});
