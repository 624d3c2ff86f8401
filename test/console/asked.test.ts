import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { because } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { inDatabase, type Person, person, shop } from "./stage.ts";
import { articles } from "./work.ts";

interface Listed {
  items: { id: string; workflow: string; status: string }[];
}

/** The instance that asks whether an article may be published. */
async function asking(by: Person): Promise<string> {
  await by.ask("PUT", "/v1/brands/acme", { approval: "required" });
  await by.ask("POST", "/v1/commands", { type: "research.requested", payload: { brand: "acme", keyword: "mint" } });
  const waiting = () => by.ask<Listed>("GET", "/v1/instances?status=waiting").then(({ items }) => items[0]?.id);
  await expect.poll(waiting, { timeout: 30_000 }).toBeDefined();
  return (await waiting()) ?? "";
}

/** The row of an action on the page of an instance. */
const acted = (page: Page, verb: string, reason: string) =>
  page.getByRole("table", { name: "Actions on this instance" }).getByRole("row", { name: new RegExp(`ada ${verb} .*${reason}`) });

it("an instance's question is shown once, at the top of the page, with its context and both answers; the answer is stored", async () => {
  const ada = await person();
  const id = await asking(ada);
  const { items } = await ada.ask<{ items: { question: string }[] }>("GET", `/v1/approvals?instance=${id}`);
  const page = await ada.open(`instances/${id}`);
  const cause = page.getByRole("region", { name: "Question" });
  await cause.getByText(items[0]?.question ?? "no question").waitFor();
  await cause.getByText(/Without an answer, it is (approved|rejected) at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(in \d+ [a-z]+\)/).waitFor();
  expect(await page.locator(".cause").count()).toBe(1);
  await expectFit(page, "instance-asks");
  await cause.getByRole("button", { name: "Approve" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("A question is answered once and before").waitFor();
  // The dialog looks the same on every screen.
  const now = await ada.open("", { beside: page });
  await now.getByRole("button", { name: "Approve" }).click();
  expect(await now.evaluate("getComputedStyle(document.querySelector('dialog h2')).marginTop")).toBe("0px");
  await because(page, "it reads well");
  await page.locator(".facts").getByText("complete", { exact: true }).waitFor();
  await acted(page, "approve", "it reads well").waitFor();
  await cause.waitFor({ state: "detached" });
  // The result of the action is visible by now.
  await expect.poll(async () => (await page.locator(".told").textContent())?.trim()).toBe("");
});

it("the page of a cancelled instance has no running clock and no primary action, and shows the actor and the reason", async () => {
  const ada = await person();
  const id = await asking(ada);
  await ada.ask("POST", `/v1/instances/${id}/cancel`, { reason: "called off" });
  const page = await ada.open(`instances/${id}`);
  await page.locator(".facts").getByText("terminated").waitFor();
  const steps = page.getByRole("list", { name: "Steps" });
  await steps.getByText("stopped", { exact: true }).waitFor();
  expect(await steps.getByText("waiting", { exact: true }).count()).toBe(0);
  await acted(page, "cancel", "called off").waitFor();
  expect(await page.locator("button.main").count()).toBe(0);
  await page.evaluate("navigator.clipboard.writeText = () => Promise.reject(new Error('not permitted'))");
  await page.keyboard.press("c");
  await page.locator(".told").getByText("The browser refused to copy the id.").waitFor();
});

it("an effect with an unknown outcome is at the top of the page with its three answers; its output is requested, with another instance's output as a sample", async () => {
  const ada = await person();
  const published = (await articles(ada, ["ristretto", "lungo"])).filter(({ workflow }) => workflow === "publish-article");
  const id = published[0]?.id ?? "";
  await inDoubt(id);
  const page = await ada.open(`instances/${id}`);
  const cause = page.getByRole("region", { name: "Unknown outcome" });
  await cause.getByText("Unknown outcome: the effect put page may have happened").waitFor();
  await cause.getByText("it may happen twice").waitFor();
  await expectFit(page, "instance-in-doubt");
  await cause.getByRole("button", { name: "It happened" }).click();
  const dialog = page.getByRole("dialog");
  const field = dialog.getByRole("textbox", { name: /^output/ });
  expect(await field.inputValue()).toBe("");
  await expect.poll(() => field.evaluate((one) => one.matches(":focus"))).toBe(true);
  await dialog.getByText("what it sent then").waitFor();
  await dialog.getByText("of another instance").waitFor();
  await dialog.getByRole("button", { name: "Use this output" }).click();
  expect(JSON.parse(await field.inputValue())).toMatchObject({ revision: expect.any(Number) });
  await expectFit(page, "instance-confirm");
  await field.fill("null");
  const sent: unknown[] = [];
  await page.route("**/confirm", (route) => {
    sent.push(route.request().postDataJSON());
    return route.fulfill({ status: 202, json: { action_id: "a", instance_id: id } });
  });
  await because(page, "the page is up");
  await dialog.waitFor({ state: "hidden" });
  expect(sent).toEqual([{ reason: "the page is up", output: null }]);
});

it("a skipped step needs its output: a confirmation without it sends nothing and focuses the field; the page names the place to correct it", async () => {
  const ada = await person({ at: await shop() });
  const payload = { order: "eu/51", change: 1, refused: true };
  const { instance_id: id } = await ada.ask<{ instance_id: string }>("POST", "/v1/commands", { type: "order.change", payload });
  const page = await ada.open(`instances/${id}`);
  const sent: unknown[] = [];
  page.on("request", (request) => request.url().endsWith("/skip") && sent.push(request.postDataJSON()));
  await page.getByRole("button", { name: "Skip the step", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Enter output.").waitFor();
  await dialog.getByLabel("Reason (kept in the audit)").fill("the warehouse has it");
  await page.keyboard.press("Control+Enter");
  const field = dialog.getByRole("textbox", { name: /^output/ });
  await expect.poll(() => field.evaluate((one) => one.matches(":focus"))).toBe(true);
  expect(sent).toEqual([]);
  await page.keyboard.insertText("null");
  await because(page, "the warehouse has it");
  await page.getByText("confirm the correct output under Effects, then retry").waitFor();
  await page.getByRole("button", { name: "Retry", exact: true }).click();
  await dialog.getByText("confirm the correct one under Effects, then retry").waitFor();
  await expectFit(page, "instance-retry-given");
});

/** The instance of an order's change, with a mail of unknown outcome. */
async function lostLetter(by: Person, order = "eu/9"): Promise<string> {
  const payload = { order, change: 1, lost: true };
  const { instance_id: id } = await by.ask<{ instance_id: string }>("POST", "/v1/commands", { type: "order.change", payload });
  const status = () => by.ask<{ status: string }>("GET", `/v1/instances/${id}`).then((one) => one.status);
  await expect.poll(status, { timeout: 30_000 }).toBe("in_doubt");
  return id;
}

it("an effect that is known to have happened is shown as such on every screen, with the button to confirm and without the one to reject", async () => {
  const ada = await person({ at: await shop() });
  const payload = { order: "eu/11", change: 1, torn: true };
  const { instance_id: id } = await ada.ask<{ instance_id: string }>("POST", "/v1/commands", { type: "order.change", payload });
  const page = await ada.open();
  await page.getByText("it happened, but the rows recorded with it were refused").waitFor({ timeout: 30_000 });
  await page.getByRole("listitem").filter({ hasText: "eu/11" }).getByRole("link").click();
  const cause = page.getByRole("region", { name: "Unknown outcome" });
  await cause.getByText("The effect write to the customer happened, but the rows recorded with it were refused.").waitFor();
  await cause.getByText("The letter book has no page left.").waitFor();
  expect(await cause.getByRole("button").allTextContents()).toEqual(["It happened", "Run it again"]);
  await expectFit(page, "instance-known-doubt");
  await cause.getByRole("button", { name: "It happened" }).click();
  const dialog = page.getByRole("dialog");
  expect(JSON.parse(await dialog.getByRole("textbox", { name: /^output/ }).inputValue())).toEqual({ sent: true });
  await dialog.getByText("If its rows are refused again, it is in doubt again").waitFor();
  await expectFit(page, "instance-known-confirm");
  await because(page, "the book has a new page");
  await dialog.waitFor({ state: "hidden" });
  await cause.getByText("The output is correct, but the rows that the code makes from it are invalid").waitFor();
  expect((await ada.ask<{ unknown_outcomes: object[] }>("GET", `/v1/instances/${id}`)).unknown_outcomes).toMatchObject([
    { reject: null, answered: { output: { sent: true }, output_ref: null } },
  ]);
});

const buttons = (page: Page) => page.locator("main .acts button").allTextContents();

it("for an unknown outcome of a cancelled instance, the page offers only accepted answers, and states that nothing is sent", async () => {
  const ada = await person({ at: await shop() });
  const id = await lostLetter(ada);
  const page = await ada.open(`instances/${id}`);
  const cause = page.getByRole("region", { name: "Unknown outcome" });
  await cause.getByText("It is sent now, under the same key.").waitFor();
  expect(await buttons(page)).toEqual(["Cancel"]);
  await ada.ask("POST", `/v1/instances/${id}/cancel`, { reason: "called off" });
  await cause.getByText("Nothing is sent, and there is nothing to undo: the undo continues.").waitFor();
  await cause.getByText("the effect remains, because it has no undo handler").waitFor();
  expect(await cause.getByRole("button").allTextContents()).toEqual(["It happened", "It did not happen"]);
  expect(await buttons(page)).toEqual([]);
  await expectFit(page, "instance-in-doubt-cancelled");
  await cause.getByRole("button", { name: "It did not happen" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Nothing is sent, and there is nothing to undo: the undo continues.").waitFor();
  await because(page, "the post office has nothing of it");
  await page.locator(".facts").getByText("terminated").waitFor();
});

it("unknown outcomes are distinguished in the list of open items: by workflow, subject and time", async () => {
  const ada = await person({ at: await shop() });
  const ids = [await lostLetter(ada, "eu/21"), await lostLetter(ada, "eu/22")];
  const page = await ada.open();
  const row = (order: string) => page.getByRole("listitem").filter({ hasText: `change-order · ${order} · write to the customer` });
  await row("eu/21")
    .getByText(/^recorded/)
    .waitFor();
  await row("eu/22").getByRole("link").click();
  await page.waitForURL(`**/instances/${ids[1]}`);
});

it("an unknown outcome of a stopped instance shows that a retry follows the answer; actions that need an answer first are not shown", async () => {
  const ada = await person({ at: await shop() });
  const id = await lostLetter(ada);
  await ada.ask("POST", `/v1/instances/${id}/cancel`, { reason: "not now", undo: false });
  const page = await ada.open(`instances/${id}`);
  const cause = page.getByRole("region", { name: "Unknown outcome" });
  await cause.getByText("Nothing is sent now: a retry sends it, under the same key.").waitFor();
  expect(await cause.getByRole("button").count()).toBe(3);
  const acts = async () => (await buttons(page)).filter((one) => one !== "Retry from here");
  expect(await acts()).toEqual(["Retry", "Run again"]);
  const { unknown_outcomes: doubts } = await ada.ask<{ unknown_outcomes: { reject: string }[] }>("GET", `/v1/instances/${id}`);
  await ada.ask("POST", doubts[0]?.reject ?? "", { reason: "the post office has nothing of it" });
  await cause.waitFor({ state: "detached" });
  expect(await acts()).toEqual(["Retry", "Undo", "Run again", "Close"]);
});

it("a command that waits for its turn in a lane offers no restart, which would be refused", async () => {
  const ada = await person({ at: await shop() });
  await lostLetter(ada, "eu/41");
  const payload = { order: "eu/41", change: 2 };
  const { instance_id: id } = await ada.ask<{ instance_id: string }>("POST", "/v1/commands", { type: "order.change", payload });
  const behind = await ada.open(`instances/${id}`);
  await behind.locator(".facts").getByText("accepted", { exact: true }).first().waitFor();
  expect(await buttons(behind)).toEqual(["Pause", "Cancel"]);
});

it("a refused undo lists each effect that may remain, for the operator to decide", async () => {
  const ada = await person({ at: await shop() });
  const payload = { order: "eu/31", change: 1, refused: true };
  const { instance_id: id } = await ada.ask<{ instance_id: string }>("POST", "/v1/commands", { type: "order.change", payload });
  const page = await ada.open(`instances/${id}`);
  await page.locator(".facts").getByText("errored").waitFor();
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("The instance has no recorded effect that can be undone.").waitFor();
  await dialog.getByRole("listitem").filter({ hasText: "tell the warehouse" }).getByText("it did not happen").waitFor();
  expect(await dialog.getByRole("button", { name: "Undo" }).isDisabled()).toBe(true);
  await expectFit(page, "instance-undo-refused");
});

/** The state of an instance whose attempt was interrupted after its request. */
function inDoubt(id: string): Promise<void> {
  return inDatabase((database) => {
    database.prepare("UPDATE millrace_instances SET status = 'in_doubt' WHERE id = ?").run(id);
    database
      .prepare(
        `UPDATE millrace_inbox SET class = 'once', state = 'in_doubt', output = NULL, input = '"what it sent then"' WHERE instance_id = ? AND step = 'put page'`,
      )
      .run(id);
  });
}

it("on a touch screen every button is high enough, no keyboard shortcut is mentioned, and no name is truncated", async () => {
  const ada = await person();
  const id = await asking(ada);
  const page = await ada.open(`instances/${id}`, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await page.getByRole("button", { name: "Cancel" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("listitem").first().waitFor();
  const low = await page.evaluate(
    "[...document.querySelectorAll('button')].filter((one) => one.checkVisibility() && one.offsetHeight < 40).map((one) => one.outerHTML)",
  );
  expect(low).toEqual([]);
  expect(await dialog.getByText("Ctrl+Enter").isVisible()).toBe(false);
  const cut = await page.evaluate(
    "[...document.querySelectorAll('.effects .cut, [aria-label=Steps] summary > :first-child')].filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)",
  );
  expect(cut).toEqual([]);
});
