import { expect, it } from "vitest";
import { letters } from "./letters.ts";
import { expectFit } from "./look.ts";
import { forgive, person } from "./stage.ts";
import { articles, breakPages } from "./work.ts";

const HOSTILE = `<img src=x onerror="alert('ran')"> \u202Edlrow`;

it("a job is shown as a graph and as a list with the same content, with its failures; the list is navigated by keys, and markup is shown as text", async () => {
  const ada = await person();
  const { mend } = await breakPages(ada);
  await articles(ada, [HOSTILE, "cold brew"], { each: 3 });
  await mend();
  const page = await ada.open("jobs/spring");
  const graph = page.getByRole("region", { name: "Graph" });
  const rows = page.getByRole("table", { name: "The job, from causes to effects" }).locator("tbody tr");
  const failed = rows.filter({ hasText: "publish-article" });
  await failed.getByText("errored").nth(1).waitFor();
  expect(await graph.locator("a.thing").count()).toBe(await rows.count());
  expect(await graph.locator('a.box[data-tone="red"] .name').allTextContents()).toEqual(["publish-article", "publish-article"]);
  expect(await graph.locator(".edge text").count()).toBeGreaterThan(2);
  expect((await rows.allTextContents()).join()).toContain(HOSTILE);
  await expectFit(page, "job");

  // A retry in another window appears here without a reload.
  const { items } = await ada.ask<{ items: { id: string }[] }>("GET", "/v1/instances?status=errored");
  for (const { id } of items) await ada.ask("POST", `/v1/instances/${id}/retry`, { reason: "the store is fixed" });
  await rows.filter({ hasText: "post-to-social" }).getByText("complete").nth(1).waitFor();
  await expect.poll(() => graph.locator('[data-tone="red"]').count()).toBe(0);
  await page.getByLabel(/^List/).selectOption("type");
  await rows.filter({ hasText: "publish-article" }).getByText("× 2").waitFor();
  await expectFit(page, "job-by-type");
  await page.getByRole("button", { name: "Clear" }).click();
  await expect.poll(() => rows.filter({ hasText: "× 2" }).count()).toBe(0);
  await page.locator("main").focus();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await expect.poll(() => new URL(page.url()).pathname).toMatch(/instances\/[0-9a-f]{32}$/);

  const lost = await ada.open("jobs/nobody");
  await lost.getByText("There is no job").waitFor();
  forgive(lost, /404/);
});

it("a job of more than 500 items is drawn by type, with a note, and is listed page by page", async () => {
  const ada = await person();
  const batch = (from: number) =>
    Array.from({ length: 100 }, (_, index) => ({
      ...{ type: "research.requested", correlation_id: "long", delay_seconds: 3600 },
      payload: { brand: "acme", keyword: `word ${from + index}` },
    }));
  for (const from of [0, 100, 200, 300, 400, 500]) await ada.ask("POST", "/v1/commands/batch", { commands: batch(from) });
  const page = await ada.open("jobs/long");
  const rows = page.getByRole("table", { name: "The job, from causes to effects" });
  await page.getByText("200 of 600 instances and dead letters, oldest first").waitFor();
  await expect.poll(() => rows.getAttribute("aria-rowcount")).toBe("201");
  await page.getByRole("button", { name: "Show more" }).click();
  await page.getByText("400 of 600").waitFor();
  await page.getByRole("button", { name: "Show more" }).click();
  await page.getByText(/600 instances and messages: more than/).waitFor();
  await expect.poll(() => rows.locator("tbody tr").count()).toBe(1);
  await rows.getByText("× 600").waitFor();
  expect(await page.getByRole("region", { name: "Graph" }).locator("a.thing").count()).toBe(1);
  await page.getByLabel(/^List/).selectOption("each");
  await expect.poll(() => rows.getAttribute("aria-rowcount")).toBe("601");
  expect(new URL(page.url()).search).toBe("?as=each");
});

it("a job of one instance is a list without a graph", async () => {
  const ada = await person();
  await ada.ask("POST", "/v1/commands", {
    ...{ type: "research.requested", correlation_id: "alone", delay_seconds: 3600 },
    payload: { brand: "acme", keyword: ada.tenant },
  });
  const page = await ada.open("jobs/alone");
  const rows = page.getByRole("table", { name: "The job, from causes to effects" }).locator("tbody tr");
  await expect.poll(() => rows.count()).toBe(1);
  expect(await page.getByRole("region", { name: "Graph" }).count()).toBe(0);
  expect(await page.getByLabel(/^List/).count()).toBe(0);
});

it("the graph of a job shows the subject of each dead letter, and the first screen its reason in words", async () => {
  const ada = await person();
  const broke = { cause: "broke", error: "It broke.", payload: { brand: "acme" } };
  await letters(ada, [
    { key: "order-1", ...broke },
    { key: "order-2", ...broke },
  ]);
  const page = await ada.open();
  await page.getByRole("link", { name: "gatherfeed-commands · invalid payload: It broke." }).waitFor();
  await page.goto(`${ada.url}/console/jobs/spring`);
  const graph = page.getByRole("region", { name: "Graph" });
  await graph.locator("a.thing").nth(1).waitFor();
  expect((await graph.locator("text:not(.name)").allTextContents()).sort()).toEqual(["open · acme/order-1", "open · acme/order-2"]);
});
