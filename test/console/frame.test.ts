import { expect, it } from "vitest";
import { signInLink } from "../../packages/millrace/cli/local/token.ts";
import { expectFit } from "./look.ts";
import { forgive, inDatabase, person } from "./stage.ts";

it("a failing screen shows an instruction, and every other screen continues to work", async () => {
  const ada = await person();
  const page = await ada.open();
  await page.route("**/v1/locks*", (route) => route.fulfill({ json: { items: [null], next_cursor: null } }));
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByRole("link", { name: "Locks" }).click();
  await page.getByRole("heading", { name: "This screen cannot be shown" }).waitFor();
  await expectFit(page, "screen-failed");
  await page.getByRole("link", { name: "Queues" }).click();
  await page.getByRole("heading", { name: "Queues" }).waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "This screen cannot be shown" }).waitFor();
  await page.unroute("**/v1/locks*");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("No lock has been held").waitFor();
  forgive(page, /console: TypeError/);
});

it("the search field keeps its text, opens a result and moves the focus to its screen, and shows the query if there is no result", async () => {
  const ada = await person();
  const command = { type: "brand.audit", payload: { brand: "acme" } };
  for (const name of ["weekly", "daily"])
    await ada.ask("PUT", `/v1/schedules/${name}`, { cron: "0 9 * * 1", command, reason: "to find it" });
  const page = await ada.open();
  await page.getByText("No instance was accepted in the last hour").waitFor();
  const hasFocus = () => page.locator("main").evaluate((one) => one.matches(":focus"));
  expect(await hasFocus()).toBe(false);
  const box = page.getByRole("combobox", { name: "Search by any id or key" });
  await box.fill("acme/nothing");
  await page.getByText("Nothing matches acme/nothing.").waitFor();
  await expectFit(page, "search-nothing");
  await page.getByRole("link", { name: "Search all instances for this subject" }).click();
  await page.waitForURL(/instances\?subject=acme%2Fnothing$/);

  await box.fill("we");
  await page.getByText("Enter at least three characters").waitFor();
  await box.blur();
  await box.focus();
  await page.waitForTimeout(300);
  expect(await box.inputValue()).toBe("we");
  await box.pressSequentially("ekly");
  await page.getByRole("option", { name: /weekly/ }).waitFor();
  await box.press("Enter");
  await page.waitForURL(/settings\/schedules\?name=weekly$/);
  await page.getByText("1 schedule", { exact: true }).waitFor();
  expect(await box.inputValue()).toBe("");
  await expect.poll(hasFocus).toBe(true);
});

it("the setting for times in UTC applies to all times of the console, and the browser remembers it", async () => {
  const ada = await person();
  await ada.ask("PUT", "/v1/schedules/weekly", {
    ...{ cron: "0 9 * * 1", command: { type: "brand.audit", payload: { brand: "acme" } }, reason: "a first entry" },
  });
  const { items } = await ada.ask<{ items: { at: string }[] }>("GET", "/v1/audit");
  const at = items[0]?.at ?? "";
  const utc = at.slice(0, 19).replace("T", " ");
  // Kolkata has no daylight saving time.
  const local = new Date(Date.parse(at) + 5.5 * 3_600_000).toISOString().slice(0, 19).replace("T", " ");
  const page = await ada.open("audit", { timezoneId: "Asia/Kolkata" });
  const footer = page.getByRole("contentinfo");
  await page.getByTitle(local).first().waitFor();
  await footer.getByText("Time zone: Asia/Calcutta.").or(footer.getByText("Time zone: Asia/Kolkata.")).waitFor();
  await footer.getByLabel("Show times in UTC").check();
  await page.getByTitle(utc).first().waitFor();
  expect(await page.getByTitle(local).count()).toBe(0);
  await expectFit(page, "utc");
  const other = await ada.open("audit", { beside: page });
  await other.getByTitle(utc).first().waitFor();
  await other.getByText("Time zone: UTC.").waitFor();
});

it("the page for an unknown path of the console shows the path, and links to an existing screen", async () => {
  const ada = await person();
  const page = await ada.open("nosuch/thing");
  await page.getByRole("heading", { name: "No such page" }).waitFor();
  await page.getByText("The console has no page at /console/nosuch/thing").waitFor();
  expect(await page.title()).toBe("No such page · Millrace");
  expect(await page.locator("nav [aria-current]").count()).toBe(0);
  await expectFit(page, "nowhere");
  await page.getByRole("link", { name: "To Now" }).click();
  await page.getByRole("heading", { name: "Now" }).waitFor();
});

it("the screen of a job shows no links if a URL cannot contain the name of the job", async () => {
  const ada = await person();
  await ada.ask("POST", "/v1/commands", {
    type: "research.requested",
    delay_seconds: 3600,
    payload: { brand: "acme", keyword: ada.tenant },
  });
  await inDatabase((database) =>
    database.prepare("UPDATE millrace_instances SET correlation_id = '..' WHERE tenant_id = ?").run(ada.tenant),
  );
  const page = await ada.open("instances");
  await page.getByRole("link", { name: "..", exact: true }).click();
  await page.getByText("No address can name “..”").waitFor();
  expect(new URL(page.url()).pathname).toBe("/console/jobs");
});

it("a sign-in link that is opened while the engine does not respond is not used up: its code is tried again", async () => {
  const ada = await person();
  const page = await ada.open();
  await page.goto("about:blank");
  await page.route("**/console/sign-in", (route) => route.abort());
  await page.goto(await signInLink(ada.url, ada.token));
  await page.getByText("Your link may still be valid: try again.").waitFor();
  expect(page.url()).toBe(`${ada.url}/console`);
  await page.unroute("**/console/sign-in");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("navigation", { name: "Screens" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Your token").fill("mr_“copied”");
  await page.keyboard.press("Enter");
  await page.getByText("A token is mr_ followed by letters").waitFor();
  // Requests that were pending when the user signed out are refused.
  forgive(page, /ERR_FAILED|401/);
});
