import { expect, it } from "vitest";
import { expectFit } from "./look.ts";
import { person } from "./stage.ts";
import { articles } from "./work.ts";

it("the catalog screen shows messages as a graph and as tables; it lists a workflow's steps with their classes and a message's fields", async () => {
  const ada = await person();
  await articles(ada, ["cold brew"]);
  const page = await ada.open("catalog");
  const workflows = page.getByRole("table", { name: "Workflows" });
  await workflows.getByText("publish-article", { exact: true }).waitFor();
  expect(await page.locator("figure g[data-kind=workflow]").count()).toBe((await workflows.locator("tbody tr").count()) + 1);
  await expectFit(page, "catalog");

  // A graph wider than the window shows that it continues, and is scrolled by keys; the navigation has a link to the screen.
  await page.setViewportSize({ width: 390, height: 844 });
  const picture = page.getByRole("region", { name: /^Graph of commands/ });
  await expect.poll(() => picture.getAttribute("data-more")).toBe("right");
  await page.getByText("Wider than this window").waitFor();
  await picture.focus();
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => picture.getAttribute("data-more")).toBe("left right");
  const { x = -1, width = 0 } = (await page.locator("header [aria-current]").boundingBox()) ?? {};
  expect([x >= 0, x + width <= 390]).toEqual([true, true]);
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
