import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { because, press } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { forgive, person } from "./stage.ts";

const HOSTILE = `<img src=x onerror="alert('ran')"> \u202Edlrow`;

it("a new user needs three clicks from an empty console to a failure that is retried", async () => {
  const ada = await person();
  const page = await ada.open();
  const first = page.getByRole("region", { name: /^Your first minute/ });
  await first.waitFor();
  await page.getByText("No instance was accepted in the last hour").waitFor();
  await expectFit(page, "now-empty");
  // The dialog overlays everything else, and has the same left edge.
  const [it, rest] = await Promise.all([first, page.locator(".now")].map((one) => one.boundingBox()));
  expect(it && rest && it.y + it.height <= rest.y && it.x === rest.x).toBe(true);
  await page.getByRole("link", { name: "Open a command that fails once" }).click();
  await page.getByText("acme/first/decaf, which fails once", { exact: true }).waitFor();
  await expectFit(page, "send-first");
  // Every tenant has its own failure, because the embedded search caches its queries.
  await page.getByRole("textbox", { name: /^keyword/ }).fill(`${ada.tenant}, which fails once`);
  await page.getByText(`acme/first/${ada.tenant}, which fails once`).waitFor();
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page
    .getByText(/search the web failed: .*is refused the first time/)
    .first()
    .waitFor();
  await page.getByRole("button", { name: "Retry", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: /Retry/ });
  await dialog.getByRole("listitem").filter({ hasText: "search the web" }).getByText("runs", { exact: true }).waitFor();
  await because(page, "to see a command work");
  await page.locator(".facts").getByText("complete", { exact: true }).waitFor();
  await press(page, "g", "n");
  await page.getByText(/^p50/).waitFor();
  expect(await first.count()).toBe(0);
});

it("the form of a message shows errors, the key, and an earlier use of the key before the message is sent, from fields or as JSON", async () => {
  const ada = await person();
  const page = await ada.open("send?message=command+nobody.knows");
  await page.route("**/v1/catalog/check", (route) => route.abort());
  await page.getByText("No message command nobody.knows can be sent from outside").waitFor();
  await page.locator(".send-which select").selectOption({ label: "research.requested" });
  const send = page.getByRole("button", { name: /^Send/ });
  // A request without a response is retried automatically.
  await page.getByText("No answer").waitFor();
  await page.unroute("**/v1/catalog/check");
  forgive(page, /ERR_FAILED/);
  await page.getByText("The key is free").waitFor();
  await page.getByRole("textbox", { name: /^brand/ }).fill("No brand");
  await page.getByText("must be lower case letters, digits and dashes").first().waitFor();
  expect(await send.isDisabled()).toBe(true);
  await expectFit(page, "send-wrong");

  await page.getByRole("textbox", { name: /^brand/ }).fill("acme");
  await page.getByRole("textbox", { name: /^keyword/ }).fill(HOSTILE);
  await page.getByText("The key is free").waitFor();
  await page.getByRole("button", { name: "JSON", exact: true }).click();
  const json = page.getByLabel(/^Payload/);
  expect(JSON.parse(await json.inputValue())).toEqual({ brand: "acme", keyword: HOSTILE });
  await json.fill(JSON.stringify({ brand: "acme", keyword: HOSTILE, cycle: "summer" }));
  await page.getByText(/^acme\/summer\//).waitFor();
  await json.press("Control+Enter");
  await expect.poll(() => new URL(page.url()).pathname).toMatch(/^\/console\/instances\/[0-9a-f]{32}$/);
  const { items } = await ada.ask<{ items: { id: string; subject: string }[] }>("GET", "/v1/instances?workflow=research-keyword");
  expect(items).toMatchObject([{ id: page.url().slice(-32), subject: `acme/${HOSTILE}` }]);

  await page.goBack();
  await page.getByLabel(/^Payload/).fill(JSON.stringify({ brand: "acme", keyword: HOSTILE, cycle: "summer" }));
  await page.getByText("This message was sent before").waitFor();
  await page.getByRole("button", { name: "Send again" }).click();
  await expect.poll(() => page.url().slice(-32)).toBe(items[0]?.id);
});

it("the send screen sends JSON as typed and the key as checked, and validates as the API; the copied curl command is a repeat", async () => {
  const ada = await person();
  const page = await ada.open("send?message=command+research.requested&as=json", { permissions: ["clipboard-read", "clipboard-write"] });
  const send = page.getByRole("button", { name: /^Send/ });
  const json = page.getByLabel(/^Payload/);
  const keyword = `"keyword":"${ada.tenant}"`;
  for (const [text, said] of [
    [`{"brand":"acme","brand":"other",${keyword}}`, "occurs twice"],
    [`{"brand":"acme",${keyword},"cycle":1e400}`, "which is no number in JSON"],
    [`${'{"a":'.repeat(5000)}1${"}".repeat(5000)}`, "nested deeper than 64 levels"],
    ["null", /payload.*(expected|must|is)/i],
    ["{", "This is not valid JSON."],
  ] as const) {
    await json.fill(text);
    await page.getByText(said).first().waitFor();
    expect(await send.isDisabled()).toBe(true);
  }
  forgive(page, /422/);
  await json.fill(`{"brand":"acme","brand":"acme",${keyword}}`);
  await page.getByRole("button", { name: "Form", exact: true }).click();
  await page.getByText("“brand” occurs twice in one object.").waitFor();
  await json.fill(`{"brand":"acme",${keyword}}`);
  await page.getByRole("textbox", { name: /^brand/ }).waitFor();

  await page.getByText("Options", { exact: true }).click();
  for (const key of [`say "hi", \\ `.repeat(30).trim(), "Größe, 二"]) {
    await page.getByRole("textbox", { name: /^idempotency key/ }).fill(key);
    await page.locator(".pairs code", { hasText: key }).waitFor();
    await expectFit(page, "send-key");
    const instances = page.waitForURL(/instances\/[0-9a-f]{32}$/);
    await page.getByRole("button", { name: "Copy as curl" }).click();
    const curl = String(await page.evaluate("navigator.clipboard.readText()"));
    await send.click();
    await instances;
    const [id] = page.url().match(/[0-9a-f]{32}$/) ?? [];
    expect(await ada.ask("GET", `/v1/instances/${id}`)).toMatchObject({ idempotency_key: key, payload: { keyword: ada.tenant } });
    const { stdout } = await promisify(execFile)("sh", ["-c", curl], { env: { ...process.env, TOKEN: ada.token } });
    expect(stdout).toMatch(new RegExp(`"instance_id":"${id}","replayed":true`));
    await page.goBack();
    await page.getByText("Options", { exact: true }).click();
    await page.getByRole("textbox", { name: /^keyword/ }).fill(ada.tenant);
  }
});

it("form fields of every type keep the typed text; no field is red before a check", async () => {
  const ada = await person();
  const page = await ada.open();
  const properties = {
    brand: { type: "string" },
    count: { type: "number" },
    note: { type: ["string", "null"] },
    tags: { type: "array", items: { type: "string" } },
    more: { type: "object", additionalProperties: {} },
  };
  // The catalog of another deployment, with a message that has fields of all kinds.
  await page.route("**/v1/catalog", async (route) => {
    const catalog = await (await route.fetch()).json();
    const message = catalog.messages.find(({ type }: { type: string }) => type === "research.requested");
    message.payload_schema = { type: "object", properties, required: ["brand", "note"] };
    await route.fulfill({ json: catalog });
  });
  await page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: "Send" }).click();
  await page.getByRole("combobox", { name: "Message" }).selectOption("command research.requested");
  await page.getByText("The message cannot be sent yet:").waitFor();
  expect(await page.locator(".wrong, [aria-invalid], [data-tone=red]").count()).toBe(0);
  const body = page.getByRole("region", { name: "The body" }).locator("pre");
  const says = (text: string) => expect.poll(() => body.textContent().then((all) => all?.replaceAll(/\s+/g, " "))).toContain(text);

  const count = page.getByRole("textbox", { name: /^count/ });
  await count.pressSequentially("-0.5");
  expect(await count.inputValue()).toBe("-0.5");
  await says('"note": null, "count": -0.5 }');
  await count.fill("-05");
  await page.getByText("This is not a number.").first().waitFor();
  await count.fill("9007199254740993");
  await page.getByText("The number would be stored as 9007199254740992").first().waitFor();
  expect(await page.getByRole("button", { name: "Send", exact: true }).isDisabled()).toBe(true);
  await count.fill("5");
  await page.getByRole("checkbox", { name: "note is null" }).uncheck();
  await page.getByRole("textbox", { name: /^note/ }).fill("a\nb");
  await page.getByRole("button", { name: "Add one" }).click();
  await page.getByRole("textbox", { name: /^tags 1/ }).fill("x\ny");
  await says('"count": 5, "tags": [ "x\\ny" ] }');
  await says('"note": "a\\nb"');
  const more = page.getByRole("textbox", { name: /^more/ });
  await more.fill('{"a":1}');
  await says('"more": {"a":1}');
  await more.fill('{"a":');
  await page.getByText("payload.more", { exact: true }).waitFor();
  expect(await page.getByRole("button", { name: "Send", exact: true }).isDisabled()).toBe(true);
  await expectFit(page, "send-fields");
});

it("a response that arrives after the user left the send screen is shown as a notice with a link, and does not change the current screen", async () => {
  const ada = await person();
  const page = await ada.open("send?message=command+research.requested");
  await page.getByRole("textbox", { name: /^keyword/ }).fill(ada.tenant);
  await page.getByText(`acme/first/${ada.tenant}`, { exact: true }).waitFor();
  let answer = () => {};
  const held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route("**/v1/commands", (route) => held.then(() => route.continue()));
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: "Queues" }).click();
  await page.getByRole("heading", { name: "Queues" }).waitFor();
  answer();
  await page.getByText("research.requested was accepted.").waitFor();
  expect(new URL(page.url()).pathname).toBe("/console/queues");
  await expectFit(page, "notice");
  await page.getByRole("link", { name: "Show it" }).click();
  await page.waitForURL(/instances\/[0-9a-f]{32}$/);
  expect(await page.getByText("research.requested was accepted.").count()).toBe(0);
});

it("a user without the scope to send a message gets that reason before any other refusal", async () => {
  const reader = await person({ scopes: ["read"] });
  const page = await reader.open("send?message=command+research.requested");
  await page.getByText("Your token may not send this: it lacks the scope enqueue.").waitFor();
  expect(await page.getByRole("button", { name: "Send", exact: true }).isDisabled()).toBe(true);
  expect(await page.getByText("POST /v1/commands").count()).toBe(1);
});
