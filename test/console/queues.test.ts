import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { startEngine } from "../../src/cli/local/engine-process.ts";
import { freePort } from "../../src/cli/local/ports.ts";
import { expectFit } from "./look.ts";
import { type Place, person } from "./stage.ts";

const HOSTILE = `<img src=x onerror="alert('ran')"> \u202Edlrow`;

/** A page draws within this time, whatever else the machine does. */
const SOON = { timeout: 30_000 };

it("the queues show what was counted, and no number where there is none to show; whoever may not see it is told why", async () => {
  const ada = await person();
  const page = await ada.open();
  await page.keyboard.press("g");
  await page.keyboard.press("q");
  const rows = page.getByRole("table", { name: "Queues" }).locator("tbody tr");
  await rows.filter({ hasText: "publish-commands" }).waitFor();
  await page.getByText("Every lane flows").waitFor();
  await page.getByText(/Dead letters: the database/).waitFor();
  await page.getByLabel("Rates of the last").selectOption("60");
  await expect.poll(() => new URL(page.url()).search, SOON).toBe("?minutes=60");
  // What nothing was delivered of has no lag, which is not none.
  await expect.poll(() => rows.filter({ hasText: "alerts" }).locator("td").nth(5).textContent(), SOON).toBe("–");
  await expectFit(page, "queues");
  await page.goto("about:blank");

  const reader = await person({ tenant: ada.tenant, scopes: ["read"] });
  const other = await reader.open("queues");
  await other.getByText("a token with the scope observe").waitFor();
  await other.getByText("Every lane flows").waitFor();
});

it("a lane that is held says by what and since when; it goes on by keyboard, with a reason, and once", async () => {
  const at = await engineWithLanes();
  const ada = await person({ at });
  const order = `eu/${HOSTILE}`;
  const change = (number: number, refused: boolean) =>
    ada.ask<{ instance_id: string }>("POST", "/v1/commands", { type: "order.change", payload: { order, change: number, refused } });
  const first = await change(1, true);
  const second = await change(2, false);

  const page = await ada.open("queues");
  const row = page.getByRole("table", { name: "Lanes" }).locator("tbody tr");
  await row.getByText(/The warehouse has packed this order/).waitFor();
  await row.getByText("held").waitFor();
  await page.getByText("by lane").waitFor();
  await expectFit(page, "lanes");
  // Of two tables the keys walk the first, until the other has the focus.
  await page.locator("main").focus();
  await page.keyboard.press("j");
  const queue = page.getByRole("table", { name: "Queues" }).locator("tbody tr");
  await expect.poll(() => queue.evaluate((one) => one.matches(":focus")), SOON).toBe(true);
  await row.focus();
  await page.keyboard.press("Enter");
  await page.getByText(/It waits for a person, behind the instance .*, which has failed/).waitFor();
  expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe(`orders · ${order}`);
  await page.getByText("1 message waits").waitFor();
  await expectFit(page, "lane");

  await page.getByRole("button", { name: "Resume" }).focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Resume" });
  await dialog.getByText(first.instance_id).waitFor();
  await expectFit(page, "lane-act");
  await page.keyboard.type("the order is closed");
  await page.keyboard.press("Control+Enter");
  await dialog.waitFor({ state: "hidden" });
  await page.getByText("Resume: done").waitFor();
  await page.getByText("Nothing waits.").waitFor();
  expect((await ada.ask<{ status: string }>("GET", `/v1/instances/${second.instance_id}?wait=30`)).status).toBe("complete");
  const { items } = await ada.ask<{ items: { verb: string; reason: string }[] }>("GET", "/v1/audit");
  expect(items.filter(({ verb }) => verb !== "mint")).toMatchObject([{ verb: "resume", reason: "the order is closed" }]);
});

/** An engine of its own: the one that all tests share has no lanes. */
async function engineWithLanes(): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-console-lanes-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const secrets = join(folder, "secrets");
  writeFileSync(secrets, "MILLRACE_KEY=test\n");
  const config = join(import.meta.dirname, "lanes/wrangler.jsonc");
  const engine = await startEngine({ folder, port: await freePort(), secrets, config, vars: { MILLRACE_DEVELOPMENT: "true" } });
  onTestFinished(() => engine.stop());
  return { url: engine.url, state: join(folder, "state") };
}
