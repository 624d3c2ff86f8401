import { expect, it } from "vitest";
import { because } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { type Person, person, picture, shop } from "./stage.ts";

/** Orders whose mail to the customer was lost: its outcome is unknown, now and after a retry. */
async function lostLetters(by: Person, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let change = 31; change < 31 + count; change++) {
    const payload = { order: `eu/${change}`, change, lost: true };
    const { instance_id: id } = await by.ask<{ instance_id: string }>("POST", "/v1/commands", { type: "order.change", payload });
    await expect.poll(async () => (await by.ask<{ status: string }>("GET", `/v1/instances/${id}`)).status).toBe("in_doubt");
    ids.push(id);
  }
  return ids;
}

it("unknown outcomes of one step are answered together: the dialog shows their count and consequences first; a new unknown outcome needs an operator", async () => {
  const ada = await person({ at: await shop() });
  const ids = await lostLetters(ada, 3);
  const page = await ada.open("to-do/unknown-outcomes");
  await page.getByRole("button", { name: "Decide all of change-order · write to the customer together …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("3 unknown outcomes match now").waitFor();
  await dialog.getByText("3 of change-order · write to the customer: It is sent now, under the same key.").waitFor();
  await dialog.getByText("You state that none of these effects happened").waitFor();
  await expectFit(page, "doubts-together");
  await dialog.getByRole("combobox", { name: /^verb/ }).selectOption("retry anyway");
  await dialog.getByRole("heading", { name: "Retry 3 unknown outcomes anyway" }).waitFor();
  await dialog.getByText("Each effect that did happen then happens twice").waitFor();
  await dialog.getByRole("combobox", { name: /^verb/ }).selectOption("reject");
  await dialog.getByRole("button", { name: "Reject 3 unknown outcomes" }).waitFor();
  await because(page, "the post office has none of them");
  await page.getByRole("heading", { name: "Reject 3 unknown outcomes" }).waitFor();
  await page.getByText("The instance is in doubt: the outcome of one of its effects is unknown").waitFor();
  await expectFit(page, "doubts-together-stopped");
  // An answered unknown outcome is an effect: its row links to its instance.
  await page.getByRole("link", { name: /^write to the customer · change-order · eu\/31/ }).click();
  await page.waitForURL(`**/instances/${ids[0]}`);
});

it("a bulk cancel without undo is described as such by its dialog and its page", async () => {
  const ada = await person({ at: await shop() });
  await lostLetters(ada, 2);
  const page = await ada.open("instances?status=in_doubt");
  await page.getByRole("link", { name: "Decide the unknown outcomes" }).waitFor();
  await page.getByRole("button", { name: "Cancel all that are in doubt …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Their effects are undone where an undo handler exists").waitFor();
  await dialog.getByRole("checkbox", { name: /^undo/ }).uncheck();
  await dialog.getByText("The instances are terminated and their effects remain").waitFor();
  await expectFit(page, "cancel-many");
  await because(page, "the supplier left");
  await page.getByRole("heading", { name: "Cancel 2 instances" }).waitFor();
  await page.getByText("not undone").waitFor();
  await page.locator(".status", { hasText: "complete" }).waitFor();
  await picture(page, "cancelled-many");
  await expectFit(page, "cancelled-many");
});
