import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";

/** Presses Tab until this element has the focus, as keyboard users do. */
export async function tabTo(thing: Locator): Promise<void> {
  for (let steps = 0; steps < 40; steps++) {
    if (await thing.evaluate((one) => one.matches(":focus"))) return;
    await thing.page().keyboard.press("Tab");
  }
  throw new Error(`Tab does not reach ${thing}.`);
}

/** Presses keys one after another. */
export async function press(page: Page, ...keys: readonly string[]): Promise<void> {
  for (const key of keys) await page.keyboard.press(key);
}

/** Moves to the next row by keyboard, and opens it. */
export async function openNext(page: Page): Promise<void> {
  await page.keyboard.press("j");
  await expect.poll(() => page.locator("tbody tr:focus").count()).toBe(1);
  await page.keyboard.press("Enter");
}

/** Waits until the open dialog shows the preview of its current fields: before, a confirmation has no effect. */
export async function previewed(page: Page): Promise<void> {
  const dialog = page.getByRole("dialog").filter({ has: page.locator("form.reason") });
  await dialog
    .locator("button.main:enabled[aria-disabled=false]")
    .waitFor()
    .catch(async () => {
      throw new Error(`The dialog cannot be confirmed: ${await dialog.allInnerTexts()}`);
    });
}

/** Enters the reason in the open dialog and confirms it by keys, as soon as the dialog shows its preview. */
export async function because(page: Page, reason: string): Promise<void> {
  await page.getByRole("dialog").getByLabel("Reason (kept in the audit)").fill(reason);
  await previewed(page);
  await page.keyboard.press("Control+Enter");
}
