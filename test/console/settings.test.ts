import type { Page } from "playwright-core";
import { expect, inject, it } from "vitest";
import { useDatabase } from "../../src/cli/local/database.ts";
import type { StageParts } from "./global-setup.ts";
import { expectFit } from "./look.ts";
import { person } from "./stage.ts";

it("a schedule is made, run and paused, each with why; what came of it is seen there", async () => {
  const ada = await person();
  const page = await ada.open("settings");
  await page.getByText("Nothing is due by the clock").waitFor();
  await expectFit(page, "settings-none");
  await page.getByRole("button", { name: "Make a schedule" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("weekly");
  await dialog.getByLabel("Command").selectOption("brand.audit");
  await dialog.getByText("brand.audit is asked for at").waitFor();
  await expectFit(page, "settings-schedule-new");
  await because(page, "every Monday");
  await page.getByText("weekly: It is made.").waitFor();
  for (const [name, said] of [
    ["Run now", "It runs."],
    ["Pause", "It is paused."],
  ] as const) {
    await page.getByRole("button", { name, exact: true }).click();
    await because(page, "to try it");
    await page.getByText(`weekly: ${said}`).waitFor();
  }
  await page.getByText("Its command and its times").click();
  await page.getByText("by hand").first().waitFor();
  await expectFit(page, "settings-schedules");
  const { items } = await ada.ask<{ items: { state: string }[] }>("GET", "/v1/schedules");
  expect(items).toMatchObject([{ state: "paused" }]);
});

it("a token is minted with what one may oneself, shown once, and revoked", async () => {
  const ada = await person();
  const page = await ada.open("settings/tokens");
  await page.getByRole("button", { name: "Mint a token" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Who will hold it").fill("grace");
  await dialog.getByLabel("enqueue").check();
  await dialog.getByText(/may see everything of the tenant; send commands/).waitFor();
  await expectFit(page, "settings-mint");
  await because(page, "a new colleague");
  const token = await page.locator(".settings-minted").textContent();
  await expectFit(page, "settings-minted");
  await page.getByRole("button", { name: "I have it" }).click();
  expect(await page.content()).not.toContain(token);
  const calls = () => fetch(`${ada.url}/v1/instances`, { headers: { authorization: `Bearer ${token}` } });
  expect((await calls()).status).toBe(200);
  await page.getByRole("button", { name: "Revoke the token of grace" }).click();
  await because(page, "left");
  await page.getByText("The token of grace is revoked.").waitFor();
  await expect
    .poll(async () => (await ada.ask<{ items: { actor: string }[] }>("GET", "/v1/tokens")).items.map(({ actor }) => actor))
    .not.toContain("grace");
  await expectFit(page, "settings-tokens");
});

it("what is asked of people is answered where it is seen; locks, alerts and doubts say why there are none", async () => {
  const ada = await person();
  await ada.ask("PUT", "/v1/brands/acme", { approval: "required" });
  await ada.ask("POST", "/v1/commands", { type: "research.requested", payload: { brand: "acme", keyword: "mint" } });
  const page = await ada.open("settings/questions");
  await page.getByRole("button", { name: "Say no" }).waitFor();
  await expectFit(page, "settings-questions");
  await page.getByRole("button", { name: "Say no" }).click();
  await because(page, "not this one");
  await page.getByText(/Answered, as action/).waitFor();
  await page.getByText("not this one").waitFor();
  for (const [name, said] of [
    ["Locks", "No lock is held"],
    ["Doubts", "Nothing is in doubt"],
    ["Alerts", /No alert|Nothing is or was wrong|alerts?$/],
  ] as const) {
    await page.getByRole("link", { name, exact: true }).click();
    await page.getByText(said).first().waitFor();
  }
});

it("an alert is muted for a while, with why, and told of again", async () => {
  const ada = await person();
  const rule = `rule-${ada.tenant}`;
  const { state } = (await (await fetch(inject("consoleStageUrl"))).json()) as StageParts;
  const now = Date.now();
  useDatabase(state, (database) =>
    database
      .prepare(
        `INSERT INTO alerts (id, rule, labels, state, severity, value, count, examples, since, fired_at, last_at, updated_at, resolved_at, version)
         VALUES (?, ?, '{"queue":"brand-events"}', 'resolved', 'warning', 3, 3, '[]', ?, ?, ?, ?, ?, 1)`,
      )
      .run(crypto.randomUUID().replaceAll("-", ""), rule, now, now, now, now, now),
  );
  const page = await ada.open(`settings/alerts?rule=${rule}`);
  await page.getByRole("button", { name: "Mute" }).click();
  await page.getByRole("dialog").getByLabel("For").selectOption("1 day");
  await because(page, "known since Monday");
  await page.getByText("known since Monday").waitFor();
  await expectFit(page, "settings-alerts");
  await page.getByRole("button", { name: "Unmute" }).click();
  await because(page, "it is mended");
  await page.getByRole("button", { name: "Mute", exact: true }).waitFor();
  const { items } = await ada.ask<{ items: { verb: string; reason: string }[] }>("GET", "/v1/audit");
  expect(items.map(({ verb, reason }) => [verb, reason])).toEqual(
    expect.arrayContaining([
      ["mute", "known since Monday"],
      ["unmute", "it is mended"],
    ]),
  );
});

/** Says why in the dialog that is open, once it has said what would happen, and confirms it by keys. */
async function because(page: Page, reason: string): Promise<void> {
  const dialog = page.getByRole("dialog");
  await expect.poll(() => dialog.locator("button.main").isEnabled()).toBe(true);
  await dialog.getByLabel("Why").fill(reason);
  await page.keyboard.press("Control+Enter");
}
