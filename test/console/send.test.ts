import { expect, it } from "vitest";
import { expectFit } from "./look.ts";
import { person } from "./stage.ts";

const HOSTILE = `<img src=x onerror="alert('ran')"> \u202Edlrow`;

it("a new user comes by three clicks from an empty console to a failure that is retried", async () => {
  const ada = await person();
  const page = await ada.open();
  await page.getByText("Nothing was asked for in the last hour").waitFor();
  await expectFit(page, "now-empty");
  await page.getByRole("link", { name: "Open a command that fails once" }).click();
  await page.getByText("acme/first/decaf, which fails once", { exact: true }).waitFor();
  await expectFit(page, "send-first");
  // Every tenant has a failure of its own: the embedded search remembers what it was asked.
  await page.getByRole("textbox", { name: /^keyword/ }).fill(`${ada.tenant}, which fails once`);
  await page.getByText(`acme/first/${ada.tenant}, which fails once`).waitFor();
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page
    .getByText(/search the web failed: .*is refused the first time/)
    .first()
    .waitFor();
  await page.getByRole("button", { name: "Retry", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: /Retry/ });
  await dialog.getByRole("listitem").filter({ hasText: "search the web" }).getByText("runs").waitFor();
  await page.keyboard.type("to see it work");
  await page.keyboard.press("Control+Enter");
  await page.locator(".facts").getByText("complete", { exact: true }).waitFor();
});

it("a form says what is wrong before it is sent, under which key it goes, and that it went before; by keyboard, or as JSON", async () => {
  const ada = await person();
  const page = await ada.open("send?message=command+research.requested");
  const send = page.getByRole("button", { name: /^Send/ });
  await page.getByText("Nobody has its key").waitFor();
  await page.getByRole("textbox", { name: /^brand/ }).fill("No brand");
  await page.getByText("must be lower case letters, digits and dashes").first().waitFor();
  expect(await send.isDisabled()).toBe(true);
  await expectFit(page, "send-wrong");

  await page.getByRole("textbox", { name: /^brand/ }).fill("acme");
  await page.getByRole("textbox", { name: /^keyword/ }).fill(HOSTILE);
  await page.getByText("Nobody has its key").waitFor();
  await page.getByRole("button", { name: "JSON", exact: true }).click();
  const json = page.getByLabel("Payload");
  expect(JSON.parse(await json.inputValue())).toEqual({ brand: "acme", keyword: HOSTILE });
  await json.fill(JSON.stringify({ brand: "acme", keyword: HOSTILE, cycle: "summer" }));
  await page.getByText(/^acme\/summer\//).waitFor();
  await json.press("Control+Enter");
  await expect.poll(() => new URL(page.url()).pathname).toMatch(/^\/console\/instances\/[0-9a-f]{32}$/);
  const { items } = await ada.ask<{ items: { id: string; subject: string }[] }>("GET", "/v1/instances?workflow=research-keyword");
  expect(items).toMatchObject([{ id: page.url().slice(-32), subject: `acme/${HOSTILE}` }]);

  await page.goBack();
  await page.getByLabel("Payload").fill(JSON.stringify({ brand: "acme", keyword: HOSTILE, cycle: "summer" }));
  await page.getByText("It was asked for before").waitFor();
  await page.getByRole("button", { name: "Send again" }).click();
  await expect.poll(() => page.url().slice(-32)).toBe(items[0]?.id);
});
