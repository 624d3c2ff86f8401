import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { because } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { type Person, person, picture } from "./stage.ts";
import { breakPages } from "./work.ts";

const errored = async (by: Person) => (await by.ask<{ items: { id: string }[] }>("GET", "/v1/instances?status=errored")).items;

it("a bulk retry of a filtered list shows its count first, stops after a failed stage, is resumed, and reports each item; the audit lists each item", async () => {
  const ada = await person();
  const outage = await breakPages(ada);
  const keywords = ["cold brew", "flat white", "pour over"];
  await ada.ask("POST", "/v1/commands/batch", {
    commands: keywords.map((keyword) => ({ type: "research.requested", payload: { brand: "acme", keyword } })),
  });
  await expect.poll(() => errored(ada).then(({ length }) => length), { timeout: 60_000 }).toBe(3);

  const { items: causes } = await ada.ask<{ items: { id: string }[] }>("GET", "/v1/instances/causes");
  const page = await ada.open(`instances?status=errored&cause=${causes[0]?.id}`);
  await page.getByRole("button", { name: "Retry, close or run again all that are errored …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("3 instances match").waitFor();
  await dialog.getByText(/publish-article, put page: .*403|publish-article, put page: .*#/).waitFor();
  await dialog.getByText("in stages of 1, 2").waitFor();
  await dialog.getByRole("combobox", { name: /^verb/ }).selectOption("close");
  await dialog.getByText("Final: a closed instance cannot be retried or undone").waitFor();
  await expectFit(page, "instances-bulk-close");
  expect(await dialog.getByRole("button", { name: "Close 3 instances" }).isEnabled()).toBe(true);
  await dialog.getByRole("combobox", { name: /^verb/ }).selectOption("retry");
  await dialog.getByRole("heading", { name: "Retry 3 instances" }).waitFor();
  expect(await dialog.getByText("Final: a closed instance").count()).toBe(0);
  await picture(page, "instances-bulk");
  // The count for one verb does not apply to another verb, however long the other verb's count takes.
  await page.route("**/v1/bulk-actions", async (route) => {
    await sleep(1000);
    // The test has released the request by then: the browser has sent it.
    await route.continue().catch(() => undefined);
  });
  await dialog.getByRole("combobox", { name: /^verb/ }).selectOption("close");
  expect(await dialog.getByRole("button", { name: /^Retry, close or run again all/ }).isDisabled()).toBe(true);
  await dialog.getByRole("combobox", { name: /^verb/ }).selectOption("retry");
  await page.unroute("**/v1/bulk-actions");
  await dialog.getByRole("button", { name: "Retry 3 instances" }).waitFor();
  await because(page, "the page store is repaired");
  await page.getByRole("heading", { name: "Retry 3 instances" }).waitFor();
  await page.getByText("1 of 1 items of this stage failed").waitFor();
  await expectFit(page, "bulk-action");

  await outage.mend();
  await page.getByRole("button", { name: "Resume" }).focus();
  await page.keyboard.press("Enter");
  await dialog.getByText("Continues an aborted or stopped bulk action with the remaining items").waitFor();
  await because(page, "now it is");
  await page.locator(".status", { hasText: "complete" }).waitFor();
  await page.getByRole("combobox", { name: "Result" }).selectOption("failed");
  const results = page.getByRole("table", { name: "Results" }).locator("tbody tr");
  await expect.poll(() => results.count()).toBe(1);
  await results.getByRole("link", { name: /^publish-article · / }).waitFor();
  expect(new URL(page.url()).search).toBe("?result=failed");

  await page.keyboard.press("Escape");
  await page.locator("main").focus();
  await page.keyboard.press("g");
  await page.keyboard.press("a");
  await page.getByRole("link", { name: "Retry 3 instances" }).waitFor();
  await expectFit(page, "actions");
  await page.getByRole("link", { name: "Audit: all actions" }).click();
  // A bulk action is one row, which links to its page, until the user requests its results per item.
  await page.getByRole("link", { name: "Retry: status errored" }).waitFor();
  expect(await page.getByRole("table", { name: "Audit" }).getByText("retry", { exact: true }).count()).toBe(0);
  await page.getByLabel("Bulk actions").selectOption("each");
  await page.getByLabel("Verb").fill("retry");
  await page.keyboard.press("Enter");
  const rows = page.getByRole("table", { name: "Audit" }).locator("tbody tr");
  await expect.poll(() => rows.count()).toBe(3);
  await expect.poll(() => rows.getByRole("link", { name: /^publish-article · / }).count()).toBe(3);
  await rows.first().click({ position: { x: 4, y: 4 } });
  await dialog.getByRole("region", { name: "Before and after" }).getByText("errored").waitFor();
  await picture(page, "audit-row");
  await page.keyboard.press("Escape");
  await expect.poll(() => new URL(page.url()).search).toBe("?verb=retry&bulk=each");
  await page.getByLabel("Bulk actions").selectOption("one row each");
  await page.getByText("No action matches these filters").waitFor();
});

it("the audit screen shows refusals, filters by actor, verb and result, and updates live", async () => {
  const ada = await person();
  const page = await ada.open("audit");
  await page.getByRole("link", { name: "mint" }).first().waitFor();
  await expect(ada.ask("POST", "/v1/instances/0123456789abcdef0123456789abcdef/retry", { reason: "x" })).rejects.toThrow();
  await page.getByRole("link", { name: "attempt" }).waitFor();
  await page.getByLabel("Result").selectOption("refused");
  await page.getByLabel("Actor").fill("ada");
  await page.keyboard.press("Enter");
  await page.getByText("instance_not_found").waitFor();
  await page.getByLabel("Since").selectOption("15 minutes");
  await page.getByText("instance_not_found").waitFor();
  await expectFit(page, "audit");
  // A saved link shows the same rows: its time is absolute.
  const before = new Date(Date.now() - 60_000).toISOString();
  const other = await ada.open(`audit?actor=ada&result=refused&until=${before}`);
  await other.getByText("No action matches these filters").waitFor();
  expect(await other.getByLabel("Until").locator(":checked").textContent()).toBe(before);
  // In a narrow window the actor and the reason are below the row instead of in columns.
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator("td.below", { hasText: /· ada$/ }).waitFor();
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.getByLabel("Actor").fill("grace");
  await page.keyboard.press("Enter");
  await page.getByText("No action matches these filters").waitFor();
});
