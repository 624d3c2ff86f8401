import { expect, it } from "vitest";
import { because, openNext, press, tabTo } from "./keyboard.ts";
import { person } from "./stage.ts";
import { breaking } from "./work.ts";

const FAILED = 20;
interface Listed {
  items: { verb: string; reason: string; detail: { bulk?: string } | null }[];
}

it("an operator by keyboard alone finds one cause of twenty failures, retries one, retries the others in stages, and finds all actions in the audit", async () => {
  const ada = await person();
  const outage = await breaking("search", ada.tenant);
  const keywords = Array.from({ length: FAILED }, (_, at) => `${ada.tenant} ${at}`);
  await ada.ask("POST", "/v1/commands/batch", {
    commands: keywords.map((keyword) => ({ type: "research.requested", payload: { brand: "acme", keyword } })),
  });
  const page = await ada.open();
  const dialog = page.getByRole("dialog");
  const rows = page.locator("tbody tr");
  const need = (count: number) =>
    page.getByRole("listitem").filter({ hasText: /research-keyword · search the web/, has: page.getByText(`${count}`, { exact: true }) });

  await need(FAILED).waitFor();
  await press(page, "Tab", "Enter");
  await tabTo(need(FAILED).getByRole("link"));
  await press(page, "Enter");
  await expect.poll(() => rows.count()).toBe(FAILED);
  await openNext(page);
  await page
    .getByText(/search the web failed.*403/)
    .first()
    .waitFor();

  await outage.mend();
  await tabTo(page.getByRole("button", { name: "Retry", exact: true }));
  await press(page, "Enter");
  await dialog.getByRole("listitem").filter({ hasText: "search the web" }).getByText("runs", { exact: true }).waitFor();
  await because(page, "the key is renewed: one first");
  await page.locator(".facts").getByText("complete", { exact: true }).waitFor();

  await press(page, "g", "n");
  await tabTo(need(FAILED - 1).getByRole("link"));
  await press(page, "Enter");
  await tabTo(page.getByRole("button", { name: "Retry, close or run again all that are errored …" }));
  await press(page, "Enter");
  await dialog.getByText(`${FAILED - 1} instances match`).waitFor();
  await dialog.getByText("in stages of 1, 10, 8").waitFor();
  await because(page, "the key is renewed");
  await page.getByRole("heading", { name: `Retry ${FAILED - 1} instances` }).waitFor();
  await page.getByRole("img", { name: `${FAILED - 1} done, 0 not needed, 0 failed, 0 to do` }).waitFor();

  await press(page, "g", "n");
  // Failures of other tests may fire alerts, which belong to the whole deployment.
  await page.locator(".needs").waitFor({ state: "attached" });
  await expect.poll(() => page.locator(".needs section:not([data-kind=firing]) li").count()).toBe(0);
  await press(page, "g", "u");
  await expect.poll(() => rows.getByRole("link", { name: "retry", exact: true }).count()).toBe(1);
  await expect.poll(() => rows.getByRole("link", { name: "bulk", exact: true }).count()).toBe(1);
  const { items } = await ada.ask<Listed>("GET", "/v1/audit");
  const retries = items.filter(({ verb }) => verb === "retry");
  expect(retries.filter(({ detail }) => detail?.bulk).map(({ reason }) => reason)).toEqual(Array(FAILED - 1).fill("the key is renewed"));
  expect(retries.filter(({ detail }) => !detail?.bulk)).toMatchObject([{ reason: "the key is renewed: one first" }]);
});
