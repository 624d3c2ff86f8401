import { expect, it } from "vitest";
import { millrace } from "../cli/millrace.ts";
import { because, tabTo } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { forgive, person, shop } from "./stage.ts";
import { articles, breakPages } from "./work.ts";

it("a failure is found, understood and retried by keyboard alone: the retry's plan is shown first, and the reason is stored", async () => {
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
    .getByText("A step failed with an error that a retry cannot fix")
    .or(page.getByText("An upstream refused the call without any effect"))
    .waitFor();
  await page
    .getByRole("list", { name: "Steps" })
    .getByText(/A fault was injected here/)
    .waitFor();
  await expectFit(page, "instance-errored");

  await tabTo(page.getByRole("button", { name: "Retry", exact: true }));
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: /Retry/ });
  await dialog.getByText("it happened and is kept").first().waitFor();
  await dialog.getByText("Later steps run too").waitFor();
  await dialog.getByRole("listitem").filter({ hasText: "put page" }).getByText("runs", { exact: true }).waitFor();
  await expectFit(page, "instance-retry");
  expect((await ada.ask<{ items: { status: string }[] }>("GET", "/v1/instances?status=errored")).items).toHaveLength(1);
  await because(page, "the store is fixed");
  await dialog.waitFor({ state: "hidden" });
  await page.locator(".facts").getByText("complete", { exact: true }).waitFor();
  // Its button has gone, and the focus is in the button's place.
  await page.getByRole("button", { name: "Undo", exact: true }).waitFor();
  await expect.poll(() => page.evaluate("document.activeElement.className")).toBe("acts");
  const acted = page.getByRole("table", { name: "Actions on this instance" });
  await acted.getByRole("row", { name: /ada retry .*the store is fixed/ }).waitFor();
  await page.getByText(/^Run 1 failed at put page: .*\(status 403\)/).waitFor();
  await page.getByText(/^run 2 took/).waitFor();
  const { idempotency_key: key } = await ada.ask<{ idempotency_key: string }>(
    "GET",
    `/v1/instances/${new URL(page.url()).pathname.split("/").at(-1)}`,
  );
  await page.locator(".facts").getByTitle(`${key}: copy it`).waitFor();
  const { items } = await ada.ask<{ items: { verb: string; reason: string }[] }>("GET", "/v1/audit");
  expect(items.filter(({ verb }) => verb === "retry")).toMatchObject([{ reason: "the store is fixed" }]);
  await expectFit(page, "instance-complete");
});

it("an action is executed once for any number of confirmations, and a refused action shows the reason", async () => {
  const ada = await person();
  const id = (await articles(ada, ["espresso"])).find(({ workflow }) => workflow === "publish-article")?.id;
  const page = await ada.open(`instances/${id}`);
  const undo = page.getByRole("button", { name: "Undo", exact: true });
  const dialog = page.getByRole("dialog", { name: "Undo" });
  const hasFocus = () => undo.evaluate((button) => button.matches(":focus"));
  await undo.click();
  await page.keyboard.press("Escape");
  await expect.poll(hasFocus).toBe(true);
  await undo.click();
  await dialog.getByRole("button", { name: "Dismiss" }).click();
  await expect.poll(hasFocus).toBe(true);
  await undo.click();
  await dialog.getByText("A started undo cannot be stopped").waitFor();
  // Effects without an undo handler remain, so a retry does not run all steps again.
  expect((await dialog.locator(".final").textContent())?.trim()).toBe("A started undo cannot be stopped.");
  await dialog.getByRole("listitem").filter({ hasText: "put page" }).getByText("undone", { exact: true }).waitFor();
  await dialog.getByLabel("Reason (kept in the audit)").fill("twice");
  const sent: string[] = [];
  page.on("request", (request) => request.url().endsWith("/undo") && sent.push(request.postData() ?? ""));
  await dialog.getByRole("button", { name: "Undo" }).evaluate((button) => [1, 2].map(() => (button as { click?(): void }).click?.()));
  await dialog.waitFor({ state: "hidden" });
  await page.locator(".facts").getByText("terminated").waitFor();
  expect(await page.locator("button.main").count()).toBe(0);
  const { items } = await ada.ask<{ items: { verb: string }[] }>("GET", "/v1/audit");
  expect(items.filter(({ verb }) => verb === "undo")).toHaveLength(1);
  expect(sent).toEqual(['{"reason":"twice"}']);

  await page.getByRole("button", { name: "Run again" }).click();
  const copy = page.getByRole("dialog", { name: "Run again" });
  await copy.getByRole("listitem").filter({ hasText: "put page" }).getByText("runs", { exact: true }).waitFor();
  await because(page, "a copy");
  await page.getByRole("status").getByRole("link", { name: "Open the instance" }).click();
  await page.waitForURL((url) => url.pathname.startsWith("/console/instances/") && !url.pathname.endsWith(String(id)));

  const lost = await ada.open(`instances/${"0".repeat(32)}`);
  await lost.getByText("There is no instance").waitFor();
  forgive(lost, /404/);
});

it("an instance whose Workflow class is not bound shows the configuration line to add", async () => {
  const ada = await person();
  await articles(ada, ["lungo"]);
  const page = await ada.open("instances");
  const message = '"publish-article" is not bound. Add this line to "workflows" in wrangler.jsonc';
  const one = /\/v1\/instances\/[0-9a-f]{32}(\?|$)/;
  await page.route(one, async (route) => {
    const instance: object = await (await route.fetch()).json();
    await route.fulfill({ json: { ...instance, status: "queued", error: { step: "", code: "config_invalid", message, attempts: 0 } } });
  });
  await page.locator("tbody tr").first().waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByText(`It cannot start: ${message}`).waitFor();
  await page.unroute(one);
});

it("a failed undo is shown as an error: a retry continues it, or the operator skips its step", async () => {
  const ada = await person();
  const id = (await articles(ada, ["ristretto"])).find(({ workflow }) => workflow === "publish-article")?.id;
  const { mend } = await breakPages(ada);
  await ada.ask("POST", `/v1/instances/${id}/undo`, { reason: "called off" });
  const page = await ada.open(`instances/${id}`);
  await page.getByText(/^The undo failed at put page: .*403/).waitFor();
  await page.locator(".facts").getByText("undo failed").waitFor();
  await page.getByText("if this step can never succeed, skip it").waitFor();
  for (const verb of ["Undo", "Restart", "Retry from here"])
    expect(await page.getByRole("button", { name: verb, exact: true }).count()).toBe(0);
  await expectFit(page, "instance-undo-failed");

  await page.getByRole("button", { name: "Retry", exact: true }).click();
  const retry = page.getByRole("dialog", { name: /Retry/ });
  await retry.getByText("The undo continues at the step that failed.").waitFor();
  await retry.getByRole("listitem").filter({ hasText: "put page" }).getByText("undone", { exact: true }).waitFor();
  await retry.getByRole("button", { name: "Dismiss" }).click();

  await page.getByRole("button", { name: "Skip the step", exact: true }).click();
  const skip = page.getByRole("dialog", { name: "Skip the step: undo put page" });
  await skip.getByText(`an operator has undone "put page"`).waitFor();
  await skip.getByRole("listitem").filter({ hasText: "put page" }).getByText("skipped", { exact: true }).waitFor();
  await skip.getByLabel("Reason (kept in the audit)").fill("I took the page down");
  const sent: string[] = [];
  page.on("request", (request) => request.url().endsWith("/skip") && sent.push(request.postData() ?? ""));
  await skip.getByRole("button", { name: "Skip the step" }).click();
  await skip.waitFor({ state: "hidden" });
  await page.locator(".facts").getByText("terminated").waitFor();
  await page.locator(".facts").getByText("undone", { exact: true }).waitFor();
  expect(sent).toEqual(['{"step":"undo put page","reason":"I took the page down"}']);
  await mend();
});

it("an instance is found by its tag, and the progress of its step is a bar in the console and a line of the CLI", async () => {
  const ada = await person({ at: await shop() });
  const payload = JSON.stringify({ order: ada.tenant, change: 1, slow: true });
  const told = millrace(ada)(["enqueue", "order.change", "--payload", payload, "--tags", "customer:acme,spring", "--wait"]);
  const page = await ada.open("instances?tag=customer:acme");
  const row = page.locator("tbody tr");
  await row.getByText("spring", { exact: true }).waitFor();
  await row.getByRole("link", { name: ada.tenant }).click();
  const bar = page.getByRole("progressbar", { name: "Progress of tell the warehouse" });
  await bar.waitFor();
  expect(await bar.getAttribute("value")).toBe("0.4");
  await page.getByText("40 % 2 of 5 parcels").waitFor();
  await expectFit(page, "instance-progress");
  await page.getByRole("link", { name: "spring" }).click();
  await expect.poll(() => new URL(page.url()).search).toBe("?tag=spring");
  expect(await told).toMatchObject({
    code: 0,
    err: expect.stringContaining("tell the warehouse  40 %  ████████░░░░░░░░░░░░  2 of 5 parcels\n"),
  });
});
