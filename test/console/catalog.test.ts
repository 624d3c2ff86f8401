import { expect, it } from "vitest";
import { because } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { forgive, inDatabase, person } from "./stage.ts";
import { articles, breakPages } from "./work.ts";

it("the catalog screen shows messages as a graph and as tables; it lists a workflow's steps with their classes and a message's fields", async () => {
  const ada = await person();
  await articles(ada, ["cold brew"]);
  const page = await ada.open("catalog");
  const workflows = page.getByRole("table", { name: "Workflows" });
  await workflows.getByText("publish-article", { exact: true }).waitFor();
  expect(await page.locator("figure [data-kind=workflow]").count()).toBe((await workflows.locator("tbody tr").count()) + 1);
  await expectFit(page, "catalog");

  // A graph wider than the window is scrolled by keys; the navigation has a link to the screen.
  await page.setViewportSize({ width: 390, height: 844 });
  const picture = page.getByRole("region", { name: /^Graph of commands/ });
  await picture.focus();
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => picture.evaluate(({ scrollLeft }) => scrollLeft)).toBeGreaterThan(0);
  const entry = async () => (await page.locator("header [aria-current]").boundingBox()) ?? { x: -1, width: 0 };
  await expect.poll(async () => [(await entry()).x >= 0, (await entry()).x + (await entry()).width <= 390]).toEqual([true, true]);
  await page.setViewportSize({ width: 1280, height: 800 });

  await workflows.getByRole("link", { name: "publish-article", exact: true }).click();
  await page.getByRole("listitem").filter({ hasText: "put page" }).getByText("natural").waitFor();
  await expectFit(page, "catalog-item");
  await page.getByRole("link", { name: "content.published" }).click();
  await page.getByRole("heading", { name: "event content.published" }).waitFor();
  await page.getByRole("link", { name: "social.create" }).waitFor();
  await page.getByText("url", { exact: true }).waitFor();
  await page.getByRole("link", { name: "brand-events" }).click();
  await page.getByText("100 messages at most").waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("c");
  await page.locator("figure").getByText("research.requested", { exact: true }).click();
  await page.getByRole("link", { name: "Send it" }).click();
  await page.getByText("This message was sent before").waitFor();
});

it("an operator pauses a workflow with its running instances, sees the waiting ones and a breaker's cause, and resumes it", async () => {
  const ada = await person();
  const research = (keyword: string) =>
    ada.ask<{ instance_id: string }>("POST", "/v1/commands", { type: "research.requested", payload: { brand: "acme", keyword } });
  const outage = await breakPages(ada);
  await articles(ada, ["cold brew"], { each: 3 });
  await outage.mend();
  const page = await ada.open("catalog/workflow%20research-keyword");
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Pause: workflow research-keyword" });
  await dialog.getByText("Running instances continue.").waitFor();
  await dialog.getByRole("combobox", { name: /^running/ }).selectOption("pause");
  await dialog.getByText("A bulk action pauses the running instances.").waitFor();
  await dialog.getByText("0 in progress, 0 not started").waitFor();
  // A pause for all tenants cannot include their running instances.
  await dialog.getByText("Options", { exact: true }).click();
  await dialog.getByRole("checkbox", { name: /^all tenants/ }).check();
  await dialog.getByText("pauses instances of your tenant only").first().waitFor();
  forgive(page, /422/);
  await dialog.getByRole("checkbox", { name: /^all tenants/ }).uncheck();
  await expectFit(page, "catalog-pause");
  await because(page, "the keyword service is down");
  await page.getByText(/^Paused by ada .*: the keyword service is down$/).waitFor();
  const { instance_id } = await research("flat white");
  await page.getByText("1 instance waits.").waitFor();
  await expectFit(page, "catalog-paused");

  const other = await ada.open(`instances/${instance_id}`, { beside: page });
  await other.getByText("Paused by ada: the keyword service is down").waitFor();
  await other.getByRole("link", { name: "Pause and resume" }).click();
  await other.getByRole("button", { name: "Resume" }).click();
  await other.getByRole("dialog").getByText("in the order of their acceptance, at the rate of the platform").waitFor();
  await because(other, "it is up again");
  await other.getByRole("button", { name: "Pause", exact: true }).waitFor();
  const { items } = await ada.ask<{ items: { verb: string; reason: string }[] }>("GET", "/v1/audit");
  expect(items.filter(({ verb }) => !["mint", "attempt"].includes(verb))).toMatchObject([
    { verb: "resume", reason: "it is up again" },
    { verb: "pause", reason: "the keyword service is down" },
  ]);

  // A pause by a breaker has a link to the failures, and a queue's page pauses the workflows of the queue.
  const [cause] = (await ada.ask<{ items: { id: string; workflow: string }[] }>("GET", "/v1/instances/causes")).items;
  await inDatabase((database) =>
    database
      .prepare("INSERT INTO millrace_pauses (id, tenant_id, actor, reason, since, cause) VALUES (?, ?, 'millrace', '1 failure', ?, ?)")
      .run(`workflow/publish-article/${ada.tenant}`, ada.tenant, Date.now(), cause?.id ?? ""),
  );
  await page.goto("about:blank");
  const failed = await ada.open("catalog/workflow%20publish-article", { beside: other });
  await failed.getByRole("link", { name: "The failures that paused it" }).click();
  await failed.getByRole("table", { name: "Instances" }).getByText("put page").waitFor();
  await ada.ask("POST", "/v1/workflows/publish-article/resume", { reason: "looked at" });
  await failed.goBack();
  await failed.getByRole("button", { name: "Pause", exact: true }).waitFor();
  await failed.goto(`${ada.url}/console/catalog/queue%20publish-commands`);
  await failed.getByRole("button", { name: "Pause", exact: true }).click();
  await failed.getByRole("dialog", { name: "Pause: queue publish-commands" }).getByText("Running instances continue.").waitFor();
});
