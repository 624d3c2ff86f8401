import { expect, it } from "vitest";
import { because, press, tabTo } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { forgive, inDatabase, person, shop } from "./stage.ts";

const hexId = () => crypto.randomUUID().replaceAll("-", "");

it("a schedule is created, run and paused, each with a reason; its results are shown on its screen", async () => {
  const ada = await person();
  const page = await ada.open("settings");
  await page.getByText("No schedules yet").waitFor();
  await expectFit(page, "settings-none");
  await page.getByRole("button", { name: "Create a schedule" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: /^name/ }).fill("weekly");
  const example = dialog.getByRole("combobox", { name: "Example of a command" });
  await example.selectOption("content.unpublish");
  const payload = dialog.getByRole("textbox", { name: /^payload/ });
  expect(JSON.parse(await payload.inputValue())).toMatchObject({ revision: null });
  await example.selectOption("brand.audit");
  expect(await dialog.getByRole("textbox", { name: /^type/ }).inputValue()).toBe("brand.audit");
  await expectFit(page, "settings-schedule-new");
  const cron = dialog.getByRole("textbox", { name: /^cron/ });
  await cron.fill("99 * * * *");
  await because(page, "every Monday");
  await dialog.locator(".wrong").getByText("has 99 for the minute: 0 to 59").waitFor();
  forgive(page, /422/);
  await cron.fill("0 9 * * 1");
  await because(page, "every Monday");
  await page.getByText("The schedule is stored.").waitFor();
  for (const [name, said] of [
    ["Run now", "Accepted."],
    ["Pause", "Paused."],
  ] as const) {
    await page.getByRole("button", { name, exact: true }).click();
    await because(page, "to try it");
    await page.locator(".told").getByText(said).waitFor();
  }
  await page.getByText("Command and runs").click();
  await page.getByText("manual").first().waitFor();
  await expectFit(page, "settings-schedules");
  const { items } = await ada.ask<{ items: { state: string }[] }>("GET", "/v1/schedules");
  expect(items).toMatchObject([{ state: "paused" }]);
});

it("a token is created with the user's own scopes, shown once, and revoked", async () => {
  const ada = await person();
  const page = await ada.open("settings/tokens");
  // The token was created a moment ago, and is valid for a day.
  await page.getByText("in 24 h").waitFor();
  await page.getByRole("button", { name: "Mint a token" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Enter actor.").waitFor();
  const actor = dialog.getByRole("textbox", { name: /^actor/ });
  expect(await actor.evaluate((field) => field.matches(":focus"))).toBe(true);
  await dialog.getByText("read all data of the tenant").waitFor();
  await actor.fill("grace");
  await dialog.getByRole("checkbox", { name: "enqueue" }).check();
  await expectFit(page, "settings-mint");
  await because(page, "a new colleague");
  const shown = page.getByRole("region", { name: "The token" }).locator("pre");
  const token = await shown.textContent();
  await expectFit(page, "settings-minted");
  const calls = () => fetch(`${ada.url}/v1/instances`, { headers: { authorization: `Bearer ${token}` } });
  expect((await calls()).status).toBe(200);
  await page.getByRole("button", { name: "Revoke the token of grace" }).click();
  await because(page, "left");
  await page.getByText("It is revoked.").waitFor();
  expect(await page.content()).not.toContain(token);
  await expect
    .poll(async () => (await ada.ask<{ items: { actor: string }[] }>("GET", "/v1/tokens")).items.map(({ actor }) => actor))
    .not.toContain("grace");
  await expectFit(page, "settings-tokens");
});

it("a question is answered on the list of questions; empty lists of locks, limits, alerts and unknown outcomes show the reason", async () => {
  const ada = await person();
  await ada.ask("PUT", "/v1/brands/acme", { approval: "required" });
  await ada.ask("POST", "/v1/commands", { type: "research.requested", payload: { brand: "acme", keyword: "mint" } });
  const page = await ada.open("to-do/questions");
  await page.getByRole("button", { name: "Reject" }).waitFor();
  await expectFit(page, "to-do-questions");
  await page.getByRole("button", { name: "Reject" }).click();
  await because(page, "not this one");
  await page.getByText("The question is answered, and its instance continues.").waitFor();
  await page.getByText("not this one").waitFor();
  for (const [name, said] of [
    ["Unknown outcomes", "No effect has an unknown outcome"],
    [/^Alerts( \d+)?$/, /No alert|alerts?$/],
    ["Settings", "No schedules yet"],
    ["Locks", "No lock has been held"],
    ["Limits", "This tenant has used no limit"],
  ] as const) {
    await page.getByRole("link", { name, exact: true }).click();
    await page.getByText(said).first().waitFor();
  }
});

it("an unknown outcome is answered by a click, with its output, or by keys; each answer shows its consequences first", async () => {
  const ada = await person({ at: await shop() });
  const lost = async (change: number) =>
    (
      await ada.ask<{ instance_id: string }>("POST", "/v1/commands", {
        type: "order.change",
        payload: { order: `eu/${change}`, change, lost: true },
      })
    ).instance_id;
  const [happened, did] = [await lost(1), await lost(2)];
  const page = await ada.open("to-do/unknown-outcomes");
  const doubts = page.getByRole("listitem").filter({ hasText: "write to the customer" });
  const of = (id: string) => doubts.filter({ has: page.locator(`a[href$="${id}"]`) });
  await expect.poll(() => doubts.count()).toBe(2);
  await of(happened)
    .getByText(/The post office answered 502/)
    .waitFor();
  await of(happened).getByText("Input").click();
  await expectFit(page, "to-do-unknown-outcomes");

  await of(happened).getByRole("button", { name: "It happened" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("The step gets the output that you enter").waitFor();
  await dialog.getByRole("textbox", { name: /^output/ }).fill('{"sent": true}');
  await dialog.getByLabel("Reason (kept in the audit)").fill("the customer has it");
  await dialog.getByRole("button", { name: "It happened" }).click();
  await page.getByText("The outcome is decided, and the instance continues.").waitFor();
  await expect.poll(() => doubts.count()).toBe(1);

  await page.locator("main").focus();
  await tabTo(of(did).getByRole("button", { name: "It did not happen" }));
  await press(page, "Enter");
  await dialog.getByText("It is sent now, under the same key.").waitFor();
  await because(page, "the post office has nothing of it");
  await expect
    .poll(async () => (await ada.ask<{ items: { verb: string; reason: string }[] }>("GET", "/v1/audit?limit=2")).items)
    .toMatchObject([
      { verb: "reject", reason: "the post office has nothing of it" },
      { verb: "confirm", reason: "the customer has it" },
    ]);
  const { status, result } = await ada.ask<{ status: string; result: unknown }>("GET", `/v1/instances/${happened}?wait=30`);
  expect([status, result]).toEqual(["complete", null]);
});

it("a limit shows its use, and its upstream's refusal; a lock shows its holder until it is broken", async () => {
  const at = await shop();
  const ada = await person({ at });
  const name = `till/${ada.tenant}`;
  await fetch(`${at.url}/hold`, { method: "POST", body: JSON.stringify({ tenant: ada.tenant, name }) });
  // A lock is listed from its row once it is held for ten seconds.
  await inDatabase(
    (database) => database.prepare("INSERT INTO millrace_locks (tenant_id, name, token) VALUES (?, ?, 1)").run(ada.tenant, name),
    at,
  );

  const page = await ada.open("settings/limits");
  const limit = page.getByRole("listitem").filter({ hasText: name });
  await limit.getByText("15 of 20 used").waitFor();
  await limit.getByText("20 in any 1 m").waitFor();
  await limit.getByText("paused").waitFor();
  await limit.getByText(/at 50 % of the rate/).waitFor();
  await expectFit(page, "settings-limits");

  await page.getByRole("link", { name: "Locks", exact: true }).click();
  const lock = page.getByRole("listitem").filter({ hasText: "held by the till" });
  await lock.getByText("none waiting").waitFor();
  await expectFit(page, "settings-locks");
  await lock.getByRole("button", { name: "Break" }).click();
  await because(page, "the till is switched off");
  await page.getByText("The lock was broken, or was already free.").waitFor();
  await page.getByText("No lock has been held").waitFor();
  const { items } = await ada.ask<{ items: object[] }>("GET", "/v1/audit?verb=break");
  expect(items).toMatchObject([{ target: name, reason: "the till is switched off", before: { who: "the till" } }]);
});

it("an alert is muted for a period, with a reason, and notified again", async () => {
  const ada = await person();
  // An alert without a rule ends with the keeper's next scan; an alert of a rule ends after two minutes without an occurrence.
  const rule = "queue_depth";
  const now = Date.now();
  await inDatabase((database) =>
    database
      .prepare(
        `INSERT INTO millrace_alerts (id, rule, labels, state, severity, value, count, examples, since, fired_at, last_at, updated_at, resolved_at, version)
         VALUES (?, ?, '{"queue":"brand-events"}', 'resolved', 'warning', 3, 3, '[]', ?, ?, ?, ?, ?, 1),
           (?, ?, '{"queue":"crm"}', 'firing', 'warning', 1, 1, '["0123456789abcdef0123456789abcdef"]', ?, ?, ?, ?, NULL, 1)`,
      )
      .run(...[hexId(), rule, now, now, now, now, now], ...[hexId(), rule, now - 60_000, now - 60_000, now, now]),
  );
  const page = await ada.open(`to-do/alerts?rule=${rule}`);
  // A firing alert comes first, even if it is older; without a receiver, the next action is shown.
  const rows = page.locator(".items > li");
  await expect.poll(() => rows.count()).toBe(2);
  expect(await rows.first().textContent()).toMatch(/^firing.*queue crm.*once.*No notification was sent/);
  expect(await rows.first().getByRole("link", { name: "01234567…cdef" }).getAttribute("href")).toContain("/instances/0123456789abcdef");
  expect(await rows.last().textContent()).toMatch(/^resolved.*3 times/);
  await page.getByText("ALERTS_SLACK_URL").waitFor();
  await page.getByRole("button", { name: "Mute" }).last().click();
  const until = page.getByRole("dialog").getByLabel(/^until/);
  expect(Math.abs(Date.parse(`${await until.inputValue()}Z`) - Date.now() - 8 * 3_600_000)).toBeLessThan(60_000);
  await because(page, "known since Monday");
  await page.getByText("known since Monday").waitFor();
  await expectFit(page, "to-do-alerts");
  await page.getByRole("button", { name: "Unmute" }).click();
  await because(page, "it is fixed");
  await expect.poll(() => page.getByRole("button", { name: "Mute", exact: true }).count()).toBe(2);
  const { items } = await ada.ask<{ items: { verb: string; reason: string }[] }>("GET", "/v1/audit");
  expect(items.map(({ verb, reason }) => [verb, reason])).toEqual(
    expect.arrayContaining([
      ["mute", "known since Monday"],
      ["unmute", "it is fixed"],
    ]),
  );
});

it("the question of a cancelled instance states that no answer is needed, and has no buttons", async () => {
  const ada = await person();
  await ada.ask("PUT", "/v1/brands/acme", { approval: "required" });
  await ada.ask("POST", "/v1/commands", { type: "research.requested", payload: { brand: "acme", keyword: "sage" } });
  const page = await ada.open("to-do/questions");
  await page.getByRole("button", { name: "Reject" }).waitFor();
  const { items } = await ada.ask<{ items: { instance_id: string }[] }>("GET", "/v1/approvals");
  await ada.ask("POST", `/v1/instances/${items[0]?.instance_id}/cancel`, { reason: "not now", undo: false });
  await page.getByText("no answer needed: its instance is terminated").waitFor();
  expect(await page.getByRole("button", { name: "Reject" }).count()).toBe(0);
});
