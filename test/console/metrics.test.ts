import { expect, it } from "vitest";
import { HISTOGRAMS } from "../../packages/millrace/src/observe/metrics/series.ts";
import { tabTo } from "./keyboard.ts";
import { expectFit } from "./look.ts";
import { forgive, inDatabase, person } from "./stage.ts";

const HOUR_MS = 3_600_000;

it("ended runs and step durations of a workflow are drawn over time, with axes, values by key and a table", async () => {
  const ada = await person();
  const workflow = `of-${ada.tenant}`;
  const last = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  const counts = { complete: 30, terminated: 4, errored: 12 };
  const ended = (by: number) => Object.entries(counts).map(([status, count]) => [JSON.stringify([workflow, status, ""]), count * by]);
  const { buckets } = HISTOGRAMS.step_duration_seconds;
  const took = [...buckets.map((bound) => (bound === 0.1 ? 99 : bound === 1 ? 1 : 0)), 0, 8];
  await inDatabase((database) => {
    const add = database.prepare("INSERT OR REPLACE INTO millrace_counts (span, at, body) VALUES ('hour', ?, ?)");
    for (const ago of [1, 2, 3, 5, 8, 20]) {
      const body = {
        instances_ended_total: Object.fromEntries(ended(ago)),
        step_duration_seconds: { [JSON.stringify([workflow, "put"])]: took },
      };
      add.run(last - ago * HOUR_MS, JSON.stringify(body));
    }
  });
  const page = await ada.open(`metrics?workflow=${workflow}`, { timezoneId: "UTC" });
  await page.getByText(`No run of ${workflow} ended and no step of it was attempted`).waitFor();
  await expectFit(page, "metrics-none");
  await page.getByLabel("Period").selectOption("hour");
  const of = page.getByRole("region", { name: workflow });
  await of.getByText("complete 1,170").waitFor();

  const bars = of.getByRole("slider", { name: `Ended runs of ${workflow}` });
  await tabTo(bars);
  expect(await bars.getAttribute("aria-valuetext")).toMatch(/ \d\d:00: no ended run$/);
  await page.keyboard.press("ArrowLeft");
  const hour = new Date(last - HOUR_MS).toISOString().slice(5, 16).replace("T", " ");
  expect(await bars.getAttribute("aria-valuetext")).toBe(`${hour}: complete 30, terminated 4, errored 12`);
  await of.getByText("complete 30, terminated 4, errored 12 · p50 75 ms, p99 100 ms, attempts 100").waitFor();
  await expectFit(page, "metrics");

  // The axis ends at the next 1, 2 or 5 over the highest stack: 46 × 20 = 920.
  expect(await bars.locator("text").allTextContents()).toEqual(expect.arrayContaining(["0", "500", "1,000"]));
  expect(await bars.locator(".bar").count()).toBe(18);
  const lines = of.getByRole("slider", { name: `Step durations of ${workflow}` });
  // A period without an attempt has no bar. The bar of p99 continues the bar of p50, so that both end at their values.
  expect(await lines.locator(".bar").count()).toBe(12);
  const ends = async (tone: string) => Number(await lines.locator(`.bar[data-tone=${tone}]`).first().getAttribute("y"));
  expect((144 - (await ends("blue"))) / (144 - (await ends("orange")))).toBeCloseTo(0.75);
  const box = await lines.boundingBox();
  await lines.hover({ position: { x: (box?.width ?? 0) - 8, y: 40 } });
  await of.getByText("no ended run · no step attempt").waitFor();

  await of.getByText("As a table").click();
  const row = of
    .getByRole("table", { name: `${workflow} over time` })
    .locator("tbody tr")
    .first();
  await expect.poll(() => row.locator("td").allTextContents()).toEqual([hour, "30", "4", "12", "75 ms", "100 ms", "100"]);
  await expectFit(page, "metrics-table");
});

it("more workflows than are drawn are linked, and a token without observe is asked for one", async () => {
  const ada = await person();
  const page = await ada.open();
  await page.route("**/v1/workflows/by-time*", (route) => {
    const at = new Date().toISOString();
    const items = Array.from({ length: 10 }, (_, nth) => ({
      ...{ at: `${at.slice(0, 17)}00.000Z`, workflow: `flow-${nth}`, ended: { complete: 10 - nth }, attempts: 0 },
      ...{ step_p50_seconds: null, step_p99_seconds: null },
    }));
    return route.fulfill({ json: { at, items } });
  });
  await page.getByRole("link", { name: "Metrics" }).click();
  await page.getByText("2 more workflows have counts: flow-8, flow-9").waitFor();
  expect(await page.getByRole("slider").count()).toBe(16);
  await page.getByRole("link", { name: "flow-9" }).click();
  await page.getByRole("region", { name: "flow-9" }).waitFor();
  expect(await page.getByRole("slider").count()).toBe(2);

  const reader = await person({ tenant: ada.tenant, scopes: ["read"] });
  const other = await reader.open("metrics");
  await other.getByText("This needs a token with the scope observe").waitFor();
  forgive(other, /403/);
});
