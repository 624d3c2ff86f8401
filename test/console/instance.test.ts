import { expect, it } from "vitest";
import { tabTo } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { forgive, person } from "./stage.ts";
import { articles, breakPages } from "./work.ts";

it("a failure is found, understood and retried by keyboard alone: what the retry would do is shown before, and why is kept", async () => {
  const ada = await person();
  const { mend } = await breakPages(ada);
  await articles(ada, ["cold brew"], { each: 3 });
  await mend();

  const page = await ada.open();
  await page.getByRole("link", { name: /publish-article · put page/ }).waitFor();
  await expectFit(page, "now");
  await page.keyboard.press("g");
  await page.keyboard.press("i");
  await page.locator("tbody tr").nth(2).waitFor();
  await page.keyboard.press("j");
  await expect
    .poll(() =>
      page
        .locator("tbody tr")
        .nth(0)
        .evaluate((row) => row.matches(":focus")),
    )
    .toBe(true);
  await page.keyboard.press("Enter");
  await page
    .getByText(/put page failed.*403/)
    .first()
    .waitFor();
  await page
    .getByRole("table", { name: "Steps" })
    .getByText(/A fault was injected here/)
    .waitFor();
  await expectFit(page, "instance-errored");

  await tabTo(page.getByRole("button", { name: "Retry", exact: true }));
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: /Retry/ });
  await dialog.getByText("it happened, and stands").first().waitFor();
  await dialog.getByRole("listitem").filter({ hasText: "put page" }).getByText("runs").waitFor();
  await expectFit(page, "instance-retry");
  expect((await ada.ask<{ items: { status: string }[] }>("GET", "/v1/instances?status=errored")).items).toHaveLength(1);
  await page.keyboard.type("the store is mended");
  await page.keyboard.press("Control+Enter");
  await dialog.waitFor({ state: "hidden" });
  await page.getByText("Retry: it is on its way").waitFor();
  await page.locator(".facts").getByText("complete", { exact: true }).waitFor();
  const { items } = await ada.ask<{ items: { verb: string; reason: string }[] }>("GET", "/v1/audit");
  expect(items.filter(({ verb }) => verb === "retry")).toMatchObject([{ reason: "the store is mended" }]);
  await expectFit(page, "instance-complete");
});

it("an act is one, however often it is confirmed, and one that is refused says why", async () => {
  const ada = await person();
  const id = (await articles(ada, ["espresso"])).find(({ workflow }) => workflow === "publish-article")?.id;
  const page = await ada.open(`instances/${id}`);
  await page.getByRole("button", { name: "Undo" }).click();
  const dialog = page.getByRole("dialog", { name: "Undo" });
  await dialog.getByRole("listitem").filter({ hasText: "put page" }).getByText("undone").waitFor();
  await dialog.getByLabel("Why").fill("twice");
  const sent: string[] = [];
  page.on("request", (request) => request.url().endsWith("/undo") && sent.push(request.postData() ?? ""));
  await dialog.getByRole("button", { name: "Undo" }).evaluate((button: { click(): void }) => [button.click(), button.click()]);
  await dialog.waitFor({ state: "hidden" });
  await page.locator(".facts").getByText("terminated").waitFor();
  const { items } = await ada.ask<{ items: { verb: string }[] }>("GET", "/v1/audit");
  expect(items.filter(({ verb }) => verb === "undo")).toHaveLength(1);
  expect(sent).toEqual(['{"reason":"twice"}']);

  const lost = await ada.open(`instances/${"0".repeat(32)}`);
  await lost.getByText("There is no instance").waitFor();
  forgive(lost, /404/);
});
