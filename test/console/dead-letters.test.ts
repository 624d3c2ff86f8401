import type { Locator } from "playwright-core";
import { expect, it } from "vitest";
import { because, tabTo } from "./keyboard.ts";
import { letters } from "./letters.ts";
import { expectFit } from "./look.ts";
import { forgive, person } from "./stage.ts";

const HOSTILE = `<img src=x onerror="alert('ran')"> \u202Edlrow`;
const LOST = { cause: "lost", error: "The message is not valid: payload.keyword is missing" };

const isFocused = (row: Locator) => expect.poll(() => row.evaluate((one) => one.matches(":focus"))).toBe(true);

it("an empty list of dead letters states which dead letters it does not show, and does not count them", async () => {
  const [plain, ada] = [await person({ scopes: ["read", "operate"] }), await person()];
  const beyond = "Dead letters without a tenant are shown only to a token with the scope unattributed.";
  const page = await plain.open("dead-letters");
  await page.getByText("No dead letter of your tenant is open").waitFor();
  await page.getByText(beyond).waitFor();
  await expectFit(page, "dead-letters-none");
  await page.getByRole("link", { name: "One by one" }).click();
  await page.getByText("Choose a state above").waitFor();
  await page.getByText(beyond).waitFor();
  for (const query of ["reason=exhausted", "reason=exhausted&each=true", "cause=lost"])
    await (await plain.open(`dead-letters?${query}`)).getByText(beyond).waitFor();
  const unseen = await plain.open(`dead-letters/${"0".repeat(32)}`);
  await unseen.getByText("a dead letter without a tenant requires the scope").waitFor();
  forgive(unseen, /404/);
  const hers = await ada.open("dead-letters?reason=exhausted");
  await hers.getByText("No cause matches these filters").waitFor();
  expect(await hers.getByText("Dead letters without a tenant").count()).toBe(0);
});

it("a dead letter is found by its cause, edited, and replayed under its own key, by keyboard alone; markup is shown as text", async () => {
  const ada = await person();
  await letters(ada, [
    { key: "campaign-6", payload: { brand: "acme" }, ...LOST },
    { key: "campaign-7", payload: { brand: HOSTILE }, ...LOST },
    { key: "order-1", payload: { brand: "acme", keyword: "mint" }, cause: "broke", error: HOSTILE, reason: "exhausted" },
  ]);
  const page = await ada.open("dead-letters");
  const causes = page.getByRole("table", { name: "Causes" }).locator("tbody tr");
  await expect.poll(() => causes.count()).toBe(2);
  expect(await causes.nth(0).textContent()).toContain("<img src=x");
  await expectFit(page, "dead-letters");

  await page.locator("main").focus();
  await page.keyboard.press("j");
  await isFocused(causes.nth(0));
  await page.keyboard.press("j");
  await isFocused(causes.nth(1));
  await page.keyboard.press("Enter");
  const rows = page.getByRole("table", { name: "Dead letters" }).locator("tbody tr");
  await expect.poll(() => rows.count()).toBe(2);
  expect(new URL(page.url()).search).toBe("?cause=lost");
  expect(await page.getByLabel("Cause").locator("option:checked").textContent()).toBe("one cause");
  await page.keyboard.press("j");
  await isFocused(rows.nth(0));
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "Replay" }).getByText("payload.keyword", { exact: true }).waitFor();
  await page.getByRole("region", { name: "Message, as JSON" }).getByText("<img src=x").waitFor();
  await expectFit(page, "dead-letter");

  await tabTo(page.getByRole("button", { name: "Correct and replay" }));
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  const editor = dialog.getByRole("textbox", { name: /^body/ });
  await editor.focus();
  const original = await editor.inputValue();
  const replay = dialog.getByRole("button", { name: "Correct and replay" });
  for (const [text, said] of [
    ["{", "This is not valid JSON."],
    ['{"payload_inline":{},"payload_inline":{"brand":"acme"}}', "occurs twice"],
    ['{"payload_inline":{"brand":12345678901234567890}}', "beyond ±9007199254740991"],
  ] as const) {
    await editor.press("Control+a");
    await page.keyboard.insertText(text);
    await dialog.getByText(said).first().waitFor();
    await expect.poll(() => replay.isDisabled()).toBe(true);
  }
  forgive(page, /422/);
  const mended = { ...JSON.parse(original), payload_inline: { brand: "acme", keyword: "mint" } };
  await editor.press("Control+a");
  await page.keyboard.insertText(JSON.stringify({ ...mended, idempotency_key: "another" }, null, 2));
  await dialog.getByText("idempotency_key", { exact: true }).waitFor();
  await editor.press("Control+a");
  await page.keyboard.insertText(JSON.stringify(mended, null, 2));
  await dialog.getByText("An instance starts under the message's key.").waitFor();
  await dialog.getByText("changed").waitFor();
  await expectFit(page, "dead-letter-replay");
  await because(page, "the keyword was lost");
  await page.getByText("The message is on its queue again.").waitFor();
  await page.getByText("actor and reason").waitFor();
  expect(await page.getByRole("region", { name: "Preview of a replay" }).count()).toBe(0);
  const { items } = await ada.ask<{ items: object[] }>("GET", "/v1/audit");
  expect(items[0]).toMatchObject({ verb: "replay", reason: "the keyword was lost", result: "applied" });
});

it("hidden values are shown by a click that is audited; a dead letter is escalated with a note, and skipped", async () => {
  const ada = await person();
  const [id] = await letters(ada, [{ key: "campaign-7", payload: { brand: "acme", keyword: "[redacted]" }, ...LOST }]);
  const page = await ada.open(`dead-letters/${id}`);
  await page.getByRole("button", { name: "Reveal withheld fields" }).click();
  await page.getByText("The audit records that you saw them.").waitFor();
  for (const [verb, said] of [
    ["Escalate", "Escalated, or already escalated or settled."],
    ["Skip", "Skipped, or already settled."],
  ] as const) {
    await page.getByRole("button", { name: verb, exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox").fill(`${verb}, because the campaign is over`);
    await dialog.getByRole("button", { name: verb, exact: true }).click();
    await page.locator(".told").getByText(said).waitFor();
  }
  await page.getByText("actor and reason").waitFor();
  const { items } = await ada.ask<{ items: { verb: string; reason: string }[] }>("GET", `/v1/audit`);
  expect(items.slice(0, 3).map(({ verb }) => verb)).toEqual(["skip", "escalate", "reveal"]);
});

it("all dead letters of a cause are counted and replayed in stages, and the cause becomes empty; an empty cause shows the reason", async () => {
  const ada = await person();
  const broke = { cause: "broke", error: "It broke.", reason: "exhausted" };
  await letters(ada, [
    { key: "order-1", payload: { brand: "acme", keyword: "mint" }, ...broke },
    { key: "order-2", payload: { brand: "acme", keyword: "sage" }, ...broke },
  ]);
  const page = await ada.open("dead-letters?cause=broke");
  await page.getByRole("button", { name: "Replay all with this cause …" }).waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.getByRole("button", { name: "Skip the 1 selected …" }).waitFor();
  await page.keyboard.press("x");
  await page.getByRole("button", { name: "Replay all with this cause …" }).click();
  await page.getByText("in stages of 1, 1").waitFor();
  await because(page, "the shop is fixed");
  await page.getByRole("heading", { name: "Replay 2 dead letters" }).waitFor();
  await page.locator(".status", { hasText: "complete" }).first().waitFor();
  await page.goBack();
  await page.getByText("No dead letter matches these filters").waitFor();
});
