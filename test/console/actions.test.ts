import { expect, it } from "vitest";
import { expectFit } from "./look.ts";
import { type Person, person, picture } from "./stage.ts";
import { breakPages } from "./work.ts";

const errored = async (by: Person) => (await by.ask<{ items: { id: string }[] }>("GET", "/v1/instances?status=errored")).items;

it("many are retried from a list's filters: counted first, stopped by itself, resumed, and told item by item; the audit has it all", async () => {
  const ada = await person();
  const outage = await breakPages(ada);
  const keywords = ["cold brew", "flat white", "pour over"];
  await ada.ask("POST", "/v1/commands/batch", {
    commands: keywords.map((keyword) => ({ type: "research.requested", payload: { brand: "acme", keyword } })),
  });
  await expect.poll(() => errored(ada).then(({ length }) => length), { timeout: 60_000 }).toBe(3);

  const page = await ada.open("instances?status=errored");
  await page.getByRole("button", { name: "Retry all that are errored …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("3 instances").waitFor();
  await dialog.getByText("in stages of 1, 2").waitFor();
  await picture(page, "instances-bulk");
  await dialog.getByLabel("Why").fill("the page store is repaired");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("heading", { name: "Retry 3 instances" }).waitFor();
  await page.getByText("1 of 1 of this stage failed").waitFor();
  await expectFit(page, "action");

  await outage.mend();
  await page.getByRole("button", { name: "Resume …" }).focus();
  await page.keyboard.press("Enter");
  await dialog.getByText("It goes on with the 2 instances that are left").waitFor();
  await page.keyboard.type("now it is");
  await page.keyboard.press("Control+Enter");
  await page.locator(".status", { hasText: "complete" }).waitFor();
  await page.getByRole("combobox", { name: "Result" }).selectOption("failed");
  const results = page.getByRole("table", { name: "Results" }).locator("tbody tr");
  await expect.poll(() => results.count()).toBe(1);
  expect(new URL(page.url()).search).toBe("?result=failed");

  await page.keyboard.press("Escape");
  await page.locator("main").focus();
  await page.keyboard.press("g");
  await page.keyboard.press("a");
  await page.getByRole("link", { name: "Retry 3 instances" }).waitFor();
  await page.getByRole("link", { name: "All actions: the audit" }).click();
  await page.getByLabel("Verb").fill("retry");
  await page.keyboard.press("Enter");
  const rows = page.getByRole("table", { name: "Audit" }).locator("tbody tr");
  await expect.poll(() => rows.count()).toBe(3);
  await rows.first().click({ position: { x: 4, y: 4 } });
  await dialog.getByRole("table", { name: "Before and after" }).getByText("errored").waitFor();
  await picture(page, "audit-row");
  await page.keyboard.press("Escape");
  await expect.poll(() => new URL(page.url()).search).toBe("?verb=retry");
});

it("the audit holds what was refused, filtered by who, what and result; it is live", async () => {
  const ada = await person();
  const page = await ada.open("audit");
  await page.getByRole("link", { name: "mint" }).first().waitFor();
  await expect(ada.ask("POST", "/v1/instances/0123456789abcdef0123456789abcdef/retry", { reason: "x" })).rejects.toThrow();
  await page.getByRole("link", { name: "attempt" }).waitFor();
  await page.getByLabel("Result").selectOption("refused");
  await page.getByLabel("Who").fill("ada");
  await page.keyboard.press("Enter");
  await page.getByText("instance_not_found").waitFor();
  await expectFit(page, "audit");
  await page.getByLabel("Who").fill("grace");
  await page.keyboard.press("Enter");
  await page.getByText("No action has these filters").waitFor();
});
