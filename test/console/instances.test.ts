import { expect, it } from "vitest";
import { because } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { forgive, inDatabase, person } from "./stage.ts";
import { articles } from "./work.ts";

const HOSTILE = `<img src=x onerror="alert('ran')"> \u202Edlrow`;

it("the list of instances shows the results of a job, is filtered by the URL, and is navigated by keys; markup is shown as text", async () => {
  const ada = await person();
  await articles(ada, ["cold brew", HOSTILE]);
  const page = await ada.open("instances?correlation=spring");
  const rows = page.getByRole("table", { name: "Instances" }).locator("tbody tr");
  await expect.poll(() => rows.count()).toBe(8);
  expect(await page.getByText(HOSTILE).first().textContent()).toContain(HOSTILE);

  await page.getByLabel("Status").selectOption("complete");
  await page.getByLabel("Workflow").fill("research-keyword");
  await page.keyboard.press("Enter");
  await expect.poll(() => rows.count()).toBe(2);
  expect(new URL(page.url()).search).toBe("?correlation=spring&status=complete&workflow=research-keyword");
  await page.getByRole("button", { name: "Clear" }).click();
  await expect.poll(() => rows.count()).toBe(8);
  await page.goBack();
  await expect.poll(() => rows.count()).toBe(2);

  // The counts follow the other filters, and each sets the status. Only a listed status with actions offers them.
  const counts = page.getByRole("list", { name: "Counts" });
  await counts.getByRole("link", { name: "complete 2", exact: true }).waitFor();
  await page.getByRole("button", { name: "Run again all that are complete …" }).click();
  const dialog = page.getByRole("dialog", { name: "Run 2 instances again" });
  await dialog.getByText("Each instance runs once more as a new one").waitFor();
  await page.keyboard.press("Escape");
  await counts.getByRole("link", { name: "errored 0", exact: true }).click();
  await page.getByText("No instance matches these filters").waitFor();
  expect(new URL(page.url()).searchParams.get("status")).toBe("errored");
  await counts.getByRole("link", { name: "All", exact: true }).click();
  await expect.poll(() => rows.count()).toBe(2);
  await counts.getByRole("link", { name: "complete 2", exact: true }).click();
  await expect.poll(() => rows.count()).toBe(2);

  await page.getByLabel("Tag").fill("nobodys");
  await page.keyboard.press("Enter");
  await page.getByText("No instance matches these filters").waitFor();
  await counts.getByRole("link", { name: "complete 0", exact: true }).click();
  await expect.poll(() => new URL(page.url()).searchParams.get("status")).toBe(null);
  expect(new URL(page.url()).searchParams.get("tag")).toBe("nobodys");
  await page.goBack();
  await page.goBack();
  await expect.poll(() => rows.count()).toBe(2);

  // In a narrow window, filters are folded and a set one remains; the navigation shows its hidden entries.
  await page.setViewportSize({ width: 390, height: 800 });
  expect(await page.getByLabel("Since").isVisible()).toBe(false);
  expect(await page.getByLabel("Status").isVisible()).toBe(true);
  await page.getByRole("button", { name: "Filters" }).click();
  expect(await page.getByLabel("Since").isVisible()).toBe(true);
  await page.setViewportSize({ width: 1280, height: 800 });

  await page.locator("main").focus();
  await page.keyboard.press("j");
  await expect.poll(() => rows.nth(0).evaluate((row) => row.matches(":focus"))).toBe(true);
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await expect.poll(() => new URL(page.url()).pathname).toMatch(/^\/console\/instances\/[0-9a-f]{32}$/);
  await page.keyboard.press("g");
  await page.keyboard.press("i");
  await expect.poll(() => rows.count()).toBe(8);
  await expectFit(page, "instances");
});

it("the list of instances shows new events without a reload, except while the list is paused", async () => {
  const ada = await person();
  const page = await ada.open("instances");
  await page.getByText("No instance yet").waitFor();
  await page.getByRole("button", { name: /^live/ }).click();
  await articles(ada, ["flat white"]);
  await page.getByRole("button", { name: /^paused/ }).waitFor();
  expect(await page.getByRole("table").count()).toBe(0);
  await page.keyboard.press("p");
  await articles(ada, ["pour over"]);
  await expect.poll(() => page.locator("tbody tr").count()).toBe(8);
});

it("the list of instances is filtered by a suggested workflow; an unknown workflow is refused in one sentence", async () => {
  const ada = await person();
  const page = await ada.open("instances");
  await page.getByLabel("Workflow").focus();
  await page.locator('datalist option[value="publish-article"]').waitFor({ state: "attached" });
  await page.getByLabel("Workflow").fill("nope");
  await page.keyboard.press("Enter");
  const said = page.getByRole("alert");
  await said.getByText("is not known here").waitFor();
  expect((await said.textContent())?.match(/The request is not valid/g)).toHaveLength(1);
  forgive(page, /422/);
});

it("an empty list of instances shows the reason and the next action", async () => {
  const ada = await person();
  const page = await ada.open("instances?status=paused");
  await page.getByText("No instance matches these filters").waitFor();
  await page.getByRole("button", { name: "Clear" }).click();
  await page.getByText("No instance yet").waitFor();
  await expectFit(page, "instances-none");

  // A waiting instance has its own status.
  await ada.ask("PUT", "/v1/brands/acme", { approval: "required" });
  await ada.ask("POST", "/v1/commands", { type: "research.requested", payload: { brand: "acme", keyword: "mint" } });
  await page.getByLabel("Activity").selectOption("waiting for");
  await page.locator("tbody tr").getByText("waiting", { exact: true }).waitFor();
  expect(await page.locator("tbody tr").count()).toBe(1);
  expect(new URL(page.url()).search).toBe("?activity=waiting");
  await page.getByLabel("Activity").selectOption("retrying");
  await page.getByText("No instance matches these filters").waitFor();
});

it("delayed commands are listed by due time; each is moved, started now or cancelled, and its page has the due time", async () => {
  const ada = await person();
  const later = (keyword: string, hours: number) =>
    ada.ask<{ instance_id: string }>("POST", "/v1/commands", {
      type: "research.requested",
      ...{ payload: { brand: "acme", keyword }, run_at: new Date(Date.now() + hours * 3_600_000).toISOString() },
    });
  const [last, first] = [await later("late", 5), await later("soon", 2)];
  const cancelled = await later("never", 3);
  // The console sends a delayed command too; times are in the time zone of the page.
  const localOf = (at: number) => new Date(at + 9 * 3_600_000).toISOString().slice(0, 19);
  const page = await ada.open("send?message=command%20research.requested", { timezoneId: "Asia/Tokyo" });
  await page.getByText("Options", { exact: true }).click();
  await page.getByLabel(/^run at .* Asia\/Tokyo/).fill(localOf(Date.now() + 7 * 3_600_000));
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator(".facts").getByText("due in 7 h").first().waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("t");
  await page.getByRole("link", { name: "delayed commands" }).click();
  const rows = page.getByRole("table", { name: "Instances" }).locator("tbody tr");
  await expect.poll(() => rows.count()).toBe(4);
  await expect
    .poll(() => rows.allTextContents())
    .toMatchObject([/in 2 h/, /in 3 h/, /in 5 h/, /in 7 h/].map((due) => expect.stringMatching(due)));
  await expectFit(page, "instances-delayed");

  await rows.nth(1).getByRole("button", { name: "Cancel" }).first().click();
  await page.getByRole("dialog", { name: "Cancel: acme/never" }).getByText("The instance starts no further step").waitFor();
  const dialog = page.getByRole("dialog");
  await because(page, "not wanted");
  await expect.poll(() => rows.count()).toBe(3);
  expect((await ada.ask<{ status: string }>("GET", `/v1/instances/${cancelled.instance_id}?wait=30`)).status).toBe("terminated");

  await rows.nth(1).getByRole("button", { name: "Move" }).first().click();
  const at = new Date(Date.now() + 3_600_000);
  at.setMilliseconds(0);
  const local = localOf(at.getTime());
  await dialog.getByLabel(/^run at .* Asia\/Tokyo/).fill("");
  await dialog.getByText("Enter run_at.").waitFor();
  await dialog.getByLabel(/^run at/).fill(local);
  await dialog.getByText(`The command starts at ${local.replace("T", " ")}.`).waitFor();
  await because(page, "earlier");
  await expect.poll(() => rows.first().textContent()).toContain("late");
  expect((await ada.ask<{ due_at: string }>("GET", `/v1/instances/${last.instance_id}`)).due_at).toBe(at.toISOString());

  await rows.first().getByRole("link").first().click();
  await page.getByText(/^delayed$/).waitFor();
  await page.getByText(local.replace("T", " ")).waitFor();
  await page.goBack();
  await rows.nth(1).getByRole("button", { name: "Start now" }).first().click();
  await dialog.getByText("The command starts now, in its queue.").waitFor();
  await because(page, "now");
  await expect.poll(() => rows.count()).toBe(2);
  expect((await ada.ask<{ status: string }>("GET", `/v1/instances/${first.instance_id}?wait=30`)).status).toBe("complete");
});

it("an instance with the name of its workflow as subject has its key in the list, and the name once in its title", async () => {
  const ada = await person();
  const found = await articles(ada, ["cold brew"]);
  const { id = "", idempotency_key: key = "" } = found.find(({ workflow }) => workflow === "research-keyword") ?? {};
  await inDatabase((database) => void database.prepare("UPDATE millrace_instances SET subject = workflow WHERE id = ?").run(id));
  const page = await ada.open("instances?workflow=research-keyword");
  await page.getByRole("table", { name: "Instances" }).getByRole("link", { name: key, exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "research-keyword", exact: true }).waitFor();
});
