import { expect, it } from "vitest";
import { because, press } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { person, shop } from "./stage.ts";

const HOSTILE = `<img src=x onerror="alert('ran')"> \u202Edlrow`;

it("the queues screen shows counts, and a dash for an unknown number; a user without permission gets the reason", async () => {
  const ada = await person();
  const page = await ada.open();
  await page.keyboard.press("g");
  await page.keyboard.press("q");
  const rows = page.getByRole("table", { name: "Queues" }).locator("tbody tr");
  await rows.filter({ hasText: "publish-commands" }).waitFor();
  await page.getByText("No lane is stalled").waitFor();
  await page.getByText(/Dead letters: the database/).waitFor();
  await page.getByLabel("Rates over the last").selectOption("60");
  await expect.poll(() => new URL(page.url()).search).toBe("?minutes=60");
  // A queue without deliveries has no lag, which is different from a lag of zero.
  await expect.poll(() => rows.filter({ hasText: "alerts" }).locator("td").nth(5).textContent()).toBe("–");
  // The status of its consumer, and a link to the queue's page.
  await expect.poll(() => rows.filter({ hasText: "brand-events" }).locator("td").nth(10).textContent()).toBe("100");
  await expectFit(page, "queues");
  await rows.getByRole("link", { name: "publish-commands" }).click();
  await page.getByRole("heading", { name: "queue publish-commands" }).waitFor();
  await page.goto("about:blank");

  const reader = await person({ tenant: ada.tenant, scopes: ["read"] });
  const other = await reader.open("queues");
  await other.getByText("a token with the scope observe").waitFor();
  await other.getByText("No lane is stalled").waitFor();
});

it("a blocked lane shows the cause and the time; the action that keeps its order comes first, and is executed once by keyboard, with a reason", async () => {
  const ada = await person({ at: await shop() });
  const order = `eu/${HOSTILE}`;
  const change = (of: string, number: number, refused: boolean) =>
    ada.ask<{ instance_id: string }>("POST", "/v1/commands", { type: "order.change", payload: { order: of, change: number, refused } });
  const first = await change(order, 1, true);
  const second = await change(order, 2, false);

  const page = await ada.open("queues");
  const row = page.getByRole("table", { name: "Lanes" }).locator("tbody tr");
  await row
    .getByText(/The warehouse has packed this order/)
    .first()
    .waitFor();
  await row.getByText("held").waitFor();
  const queues = page.getByRole("table", { name: "Queues" }).locator("tbody tr");
  await queues.filter({ hasText: "by lane" }).getByRole("link", { name: "orders", exact: true }).waitFor();
  await expectFit(page, "lanes");
  // If a page has two tables, the keys navigate the first table until the second has the focus.
  await page.locator("main").focus();
  await page.keyboard.press("j");
  const queue = queues.first();
  await expect.poll(() => queue.evaluate((one) => one.matches(":focus"))).toBe(true);
  await row.focus();
  await page.keyboard.press("Enter");
  await page.getByText(/is held and needs an operator. Its instance failed: .*has packed/).waitFor();
  expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe(`Lane orders · ${order}`);
  await page.getByText("1 message waits").waitFor();
  const acts = page.locator("p.acts button");
  expect(await acts.allTextContents()).toEqual([
    "Retry the instance",
    "Skip this instance",
    `Drop the next message (${order.slice(0, 19)}…)`,
    "Pause",
  ]);
  expect(await acts.first().getAttribute("class")).toBe("main");
  await expectFit(page, "lane");

  await page.getByRole("button", { name: "Skip this instance" }).focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Skip this instance" });
  await dialog.getByText("A held lane continues after the failed instance, which can be retried out of order.").waitFor();
  await expectFit(page, "lane-act");
  await because(page, "the order is closed");
  await dialog.waitFor({ state: "hidden" });
  await page.getByText("It is done.").waitFor();
  await page.getByText("The lane is empty.").waitFor();
  expect((await ada.ask<{ status: string }>("GET", `/v1/instances/${second.instance_id}?wait=30`)).status).toBe("complete");
  const { items } = await ada.ask<{ items: { verb: string; reason: string }[] }>("GET", "/v1/audit");
  expect(items.filter(({ verb }) => verb !== "mint")).toMatchObject([{ verb: "resume", reason: "the order is closed" }]);

  // Many lanes blocked by one failure are one row of the Now screen, which links to them; when it is closed, their lanes continue.
  await ada.ask("POST", `/v1/instances/${first.instance_id}/close`, { reason: "given up" });
  const failed = await Promise.all(["fr/1", "fr/2", "fr/3"].map((of) => change(of, 1, true)));
  await page.goto("about:blank");
  const now = await ada.open();
  await now.getByRole("link", { name: /^3 keys of lane orders are blocked by one failure: .*has packed this order/ }).waitFor();
  await expect.poll(() => now.title()).toMatch(/^\(\d+\) Now/);
  await expectFit(now, "now-lanes");
  await now.locator("main").focus();
  const focused = now.locator(".needs a:focus");
  // Alerts of the deployment, if any, are before the failed instance.
  const next = async (key: string) => {
    await press(now, key);
    return focused.textContent();
  };
  await expect.poll(() => next("j")).toMatch(/^change-order/);
  await expect.poll(() => next("j")).toMatch(/^3 keys of lane orders/);
  await expect.poll(() => next("k")).toMatch(/^change-order/);
  await press(now, "j", "Enter");
  const lanes = now.getByRole("table", { name: "Lanes" }).locator("tbody tr");
  await expect.poll(() => lanes.count()).toBe(3);
  await expectFit(now, "lanes-of-a-cause");
  await now.getByRole("link", { name: "Retry or close these" }).click();
  await now.getByRole("region", { name: "The cause" }).getByText("The warehouse has packed this order").waitFor();
  await expectFit(now, "instances-of-a-cause");
  for (const { instance_id } of failed) await ada.ask("POST", `/v1/instances/${instance_id}/close`, { reason: "given up" });
  await now.goBack();
  await now.getByText("No stalled lane matches these filters").waitFor();
});
