import { expect, it } from "vitest";
import { built, readOperations } from "../../packages/millrace/cli/local/console.ts";
import { forgive, person } from "./stage.ts";
import { articles } from "./work.ts";

it("a list shows each filter that its route declares, without a change of the console", async () => {
  const operations = readOperations();
  const fields = operations.find(({ command }) => command === "instances list")?.fields ?? [];
  const declared = { name: "paint_color", in: "query", type: "text", values: ["red", "dark_blue"] } as const;
  const { script } = await built(operations.map((one) => (one.fields === fields ? { ...one, fields: [...fields, declared] } : one)));
  const ada = await person();
  const page = await ada.open("instances");
  await page.getByLabel("Status").waitFor();
  expect(await page.getByLabel("Paint color").count()).toBe(0);

  await page.route("**/console/assets/*.js", (route) => route.fulfill({ contentType: "text/javascript", body: script }));
  await page.reload();
  // The engine does not know the filter, so that it refuses the request or ignores the filter.
  forgive(page, /422/);
  await page.getByLabel("Paint color").selectOption("dark blue");
  await expect.poll(() => new URL(page.url()).searchParams.get("paint_color")).toBe("dark_blue");
});

it("the values of a declared filter are the options of its list", async () => {
  const ada = await person();
  const page = await ada.open("instances");
  const fields = readOperations().find(({ command }) => command === "instances list")?.fields ?? [];
  const { values = [] } = fields.find(({ name }) => name === "status") ?? {};
  expect(values.length).toBeGreaterThan(5);
  const options = await page.getByLabel("Status").locator("option").allTextContents();
  expect(options).toEqual(["any", ...values.map((value) => value.replaceAll("_", " "))]);
});

it("a filter by a queue or a message type suggests the names in the catalog", async () => {
  const ada = await person();
  const page = await ada.open("dead-letters");
  for (const [label, name] of Object.entries({ Queue: "gatherfeed-commands", Type: "research.requested" })) {
    await page.getByLabel(label).focus();
    await page.locator(`datalist option[value="${name}"]`).waitFor({ state: "attached" });
  }
});

it("counts and bulk actions are not shown with a filter that they do not support", async () => {
  const ada = await person();
  await articles(ada, ["cold brew"]);
  const page = await ada.open("instances?status=complete");
  const rows = page.getByRole("table", { name: "Instances" }).locator("tbody tr");
  const shown = [page.getByRole("list", { name: "Counts" }), page.getByRole("button", { name: "Run again all that are complete …" })];
  for (const one of shown) await one.waitFor();
  await page.goto(`${page.url()}&version=1`);
  await expect.poll(() => rows.count()).toBe(4);
  for (const one of shown) expect(await one.count()).toBe(0);
});

it("an unknown value of a filter is requested once, and refused", async () => {
  const ada = await person();
  const page = await ada.open("instances");
  forgive(page, /422/);
  for (const [path, name] of Object.entries({ "messages?minutes=soon": "minutes", "audit?bulk=some": "bulk" })) {
    const asked: string[] = [];
    page.on("request", (request) => request.url().includes(`${name}=`) && request.url().includes("/v1/") && asked.push(request.url()));
    await page.goto(`${ada.url}/console/${path}`);
    await page.getByRole("alert").getByText(`${name} must be`).waitFor();
    expect(asked.length).toBe(1);
  }
});
