import { expect, it } from "vitest";
import { signInLink } from "../../packages/millrace/cli/local/token.ts";
import { because, previewed } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { forgive, person, stage } from "./stage.ts";
import { articles } from "./work.ts";

it("a sign-in link signs one tab in; its code is removed from the URL at once, and the tab keeps the token until it signs out or closes", async () => {
  const ada = await person();
  const page = await ada.open("instances?since=1h");
  expect(page.url()).toBe(`${ada.url}/console/instances?since=1h`);
  const shared = await page.evaluate("JSON.stringify([{ ...localStorage }, document.cookie, history.state])");
  expect(shared).not.toMatch(/mr_|mc_/);
  await page.reload();
  await page.getByRole("heading", { name: "Instances" }).waitFor();
  // No cookie authenticates, so a page of another origin cannot send an authenticated request.
  expect(await page.evaluate('fetch("/v1/caller", { credentials: "include" }).then(({ status }) => status)')).toBe(401);
  const beside = await page.context().newPage();
  await beside.goto(page.url());
  await beside.getByLabel("Your token").waitFor();
  await beside.close();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.reload();
  await page.getByLabel("Your token").waitFor();
  expect(await page.evaluate("sessionStorage.length")).toBe(0);
  await page.getByText("npx millrace token link", { exact: true }).waitFor();
  await page.getByText("npx millrace token --persist-to .wrangler/state --tenant acme --actor ada", { exact: true }).waitFor();
  await expectFit(page, "sign-in");

  await page.getByLabel("Your token").fill(ada.token);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Instances" }).waitFor();
  forgive(page, /401/);
});

it("a used sign-in link is refused, and the page shows an instruction", async () => {
  const ada = await person();
  const link = await signInLink(ada.url, ada.token);
  const page = await ada.open();
  await page.goto("about:blank");
  await page.goto(link);
  await page.getByRole("navigation").waitFor();
  await page.goto("about:blank");
  await page.goto(link);
  await page.getByText(/has been used: it works once\. Get another: npx millrace token link|has been used: it works once\./).waitFor();
  await page.getByText("POST /v1/sign-in-codes").waitFor();
  expect(page.url()).toBe(`${ada.url}/console`);
  forgive(page, /401/);
});

it("when a token is revoked or expires while a form is open, the page asks for a new token, and no input is lost", async () => {
  const ada = await person();
  const id = (await articles(ada, ["ristretto"])).find(({ workflow }) => workflow === "publish-article")?.id;
  const page = await ada.open(`instances/${id}`);
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByLabel("Reason (kept in the audit)").fill("a reason that took long to write");
  await previewed(page);
  const { items } = await ada.ask<{ items: { id: string; expires_at: string }[] }>("GET", "/v1/tokens");
  for (const one of items) {
    if (!ada.token.includes(one.id)) await ada.ask("DELETE", `/v1/tokens/${one.id}?reason=over`);
  }
  await page.keyboard.press("Control+Enter");
  const again = page.getByRole("dialog", { name: "Sign in again" });
  await again.waitFor();
  await expectFit(page, "sign-in-again");
  // Esc does not close the prompt, and the status dot does not show a lost connection as live.
  await page.keyboard.press("Escape");
  await again.waitFor();
  expect(await page.locator(".live").textContent()).toContain("no connection");
  // The token of a sign-in may expire soon, by the clock.
  const soon = await person({ tenant: ada.tenant, endsInMs: 5000 });
  await again.getByLabel("Your token").fill(soon.token);
  await again.getByRole("button", { name: "Sign in" }).click();
  await again.waitFor({ state: "hidden" });
  await expect.poll(() => soon.ask("GET", "/v1/caller").then(() => "it works", String)).toContain("401");
  await page.getByLabel("Reason (kept in the audit)").press("Control+Enter");
  await again.waitFor();
  await again.getByLabel("Your token").fill(ada.token);
  await again.getByRole("button", { name: "Sign in" }).click();
  await again.waitFor({ state: "hidden" });
  expect(await page.getByLabel("Reason (kept in the audit)").inputValue()).toBe("a reason that took long to write");
  await previewed(page);
  await page.getByLabel("Reason (kept in the audit)").press("Control+Enter");
  await page.locator(".facts").getByText("terminated").waitFor();
  forgive(page, /401/);
});

it("a page where a user of another tenant signs in shows no data of the first tenant; an invalid link changes nothing", async () => {
  const [ada, eve] = [await person(), await person()];
  const id = (await articles(ada, ["cortado"])).find(({ workflow }) => workflow === "publish-article")?.id;
  const page = await ada.open(`instances/${id}`);
  await page.getByRole("list", { name: "Steps" }).waitFor();
  for (const code of ["mc_nothing", "%E0%A4%A"]) {
    await page.evaluate(`location.hash = "#code=${code}"`);
    await expect.poll(() => page.url()).not.toContain("#");
  }
  await page.getByRole("list", { name: "Steps" }).waitFor();
  forgive(page, /401|422/);

  const link = await signInLink(eve.url, eve.token);
  await page.evaluate(`location.hash = ${JSON.stringify(new URL(link).hash)}`);
  await page.locator(".who").getByText(eve.tenant).waitFor();
  await page.getByText("No such instance").first().waitFor();
  expect(await page.getByRole("table").count()).toBe(0);
  expect(await page.getByRole("button", { name: "Undo" }).count()).toBe(0);
  forgive(page, /404/);
});

it("a user who may only read is offered no action", async () => {
  const ada = await person();
  const reader = await person({ tenant: ada.tenant, scopes: ["read"] });
  const id = (await articles(ada, ["lungo"])).find(({ workflow }) => workflow === "publish-article")?.id;
  const page = await reader.open(`instances/${id}`);
  await page.getByRole("list", { name: "Steps" }).waitFor();
  expect(await page.getByRole("button", { name: "Undo" }).count()).toBe(0);
});

it("a user of Cloudflare Access is signed in at once, acts under their own name, and gets no prompt", async () => {
  const { access } = await stage();
  const ada = await person({ tenant: access.tenant });
  const headers = { "cf-access-jwt-assertion": access.assertion };
  const page = await ada.open("settings/tokens", { isKnown: true, extraHTTPHeaders: headers });
  await page.locator(".who").getByText(access.tenant).waitFor();
  await page.getByRole("button", { name: /^live/ }).waitFor();
  await page.getByRole("button", { name: "Mint a token" }).click();
  await page.getByRole("textbox", { name: /^actor/ }).fill("grace");
  await because(page, "a new colleague");
  await page.getByRole("region", { name: "The token" }).waitFor();
  const { items } = await ada.ask<{ items: { verb: string; actor: string }[] }>("GET", "/v1/audit");
  expect(items[0]).toMatchObject({ verb: "mint", actor: access.email });

  await page.context().setExtraHTTPHeaders({ "cf-access-jwt-assertion": `${access.assertion}x` });
  await page.reload();
  await page.getByLabel("Your token").waitFor();
  forgive(page, /401/);
});
