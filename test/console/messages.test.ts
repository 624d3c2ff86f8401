import { expect, it } from "vitest";
import { expectFit } from "./look.ts";
import { person } from "./stage.ts";
import { articles } from "./work.ts";

const HOSTILE = `<img src=x onerror="alert('ran')"> \u202Edlrow`;

it("the messages screen counts results by type and minute; a search for a key finds its instance, also if the key contains markup", async () => {
  const ada = await person();
  const [first] = await articles(ada, ["cold brew", HOSTILE]);
  const page = await ada.open();
  await page.keyboard.press("g");
  await page.keyboard.press("m");
  const { items } = await ada.ask<{ items: { idempotency_key: string; name: string }[] }>("GET", "/v1/correlations/spring");
  const key =
    items.find(({ name, idempotency_key }) => name === "research-keyword" && idempotency_key.includes("img"))?.idempotency_key ?? "";
  expect(key).toContain("<img");
  await page.getByLabel("Key, subject or id").fill(key);
  await page.keyboard.press("Enter");
  const holders = page.getByRole("table", { name: "Holders of the key" }).locator("tbody tr");
  await holders.getByText("complete").waitFor();
  expect(await page.getByRole("heading", { name: "Holder of the key" }).textContent()).toContain(key);
  await expectFit(page, "messages-key");
  await holders.getByRole("link", { name: "research-keyword" }).click();
  await expect.poll(() => new URL(page.url()).pathname).toMatch(/instances\/[0-9a-f]{32}$/);
  await page.goBack();
  await page.getByLabel("Key, subject or id").fill(`${first?.id.slice(0, 12)}`);
  await page.keyboard.press("Enter");
  await page.getByRole("table", { name: "Search results" }).getByText("id, by prefix").waitFor();
  await page.getByLabel("Key, subject or id").fill("nobody/has/this");
  await page.keyboard.press("Enter");
  await page.getByText("Nothing matches").waitFor();
  await page.getByRole("button", { name: "Clear" }).click();

  // Counts arrive within 30 s, and the page polls.
  const row = page.getByRole("table", { name: "Messages by type" }).locator("tbody tr").filter({ hasText: "research.requested" });
  await expect.poll(() => row.locator("td").nth(3).textContent(), { timeout: 60_000 }).toMatch(/^[1-9]/);
  await row.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("slider", { name: "research.requested by minute" }).waitFor();
  await page.getByText("As a table").click();
  const minutes = page.getByRole("table", { name: "research.requested by minute" }).locator("tbody tr");
  await expect.poll(() => minutes.count()).toBeGreaterThan(0);
  await page.getByText("started: an instance started").waitFor();
  expect(Object.fromEntries(new URL(page.url()).searchParams)).toEqual({ type: "research.requested", queue: "gatherfeed-commands" });
  await expectFit(page, "messages");
});
