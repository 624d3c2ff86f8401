import { expect, it } from "vitest";
import { tabTo } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { person } from "./stage.ts";
import { articles } from "./work.ts";

it("JSON folds by key and by click, copies as a whole, and shows a large value in parts", async () => {
  const ada = await person();
  const { id } = (await articles(ada, ["macchiato"])).find(({ workflow }) => workflow === "publish-article") ?? {};
  const small = { brand: "<img src=x>", tags: ["a", 2, true, null], none: {}, price: { amount: 12.5 } };
  const large = Array.from({ length: 10_000 }, (_, nth) => ({ nth, deep: { deeper: ["a", "b"] } }));
  const page = await ada.open("instances", { permissions: ["clipboard-read", "clipboard-write"] });
  await page.route(`**/v1/instances/${id}*`, async (route) => {
    const instance: object = await (await route.fetch()).json();
    await route.fulfill({ json: { ...instance, status: "complete", payload: small, result: { large, text: "x".repeat(5000) } } });
  });
  await page.locator(`a[href$="${id}"]`).first().click();
  const input = page.getByRole("region", { name: "Input as JSON" });
  const shown = () => input.locator("pre").textContent();
  expect(await shown()).toBe(JSON.stringify(small, null, 2));
  await expectFit(page, "json");

  const price = input.getByRole("button", { name: "price" });
  await tabTo(price);
  await page.keyboard.press("Enter");
  expect(await price.getAttribute("aria-expanded")).toBe("false");
  await input.getByRole("button", { name: "tags" }).click();
  expect(await shown()).toBe('{\n  "brand": "<img src=x>",\n  "tags": [ 4 items ],\n  "none": {},\n  "price": { 1 field }\n}');
  await input.getByRole("button", { name: "Copy" }).click();
  await input.getByRole("button", { name: "Copied" }).waitFor();
  expect(await page.evaluate("navigator.clipboard.readText()")).toBe(JSON.stringify(small, null, 2));

  const output = page.getByRole("region", { name: "Output as JSON" });
  // The deeper levels of a large value are folded.
  expect(await output.getByRole("button", { expanded: false }).count()).toBe(100);
  await output.getByRole("button", { name: "Show 900 more of 10000" }).click();
  expect(await output.getByRole("button", { expanded: false }).count()).toBe(1000);
  expect(await output.locator("pre").textContent()).toContain("x".repeat(5000));
});
