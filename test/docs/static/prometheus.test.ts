import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { exposition } from "../../../packages/millrace/src/observe/metrics/exposition.ts";
import { COUNTERS, GAUGES, HISTOGRAMS } from "../../../packages/millrace/src/observe/metrics/series.ts";
import { addCount, addObserved, type Tally } from "../../../packages/millrace/src/observe/metrics/tally.ts";
import { readMetrics } from "../../prometheus-text.ts";
import { rowsOf } from "../markdown.ts";

const ROOT = join(import.meta.dirname, "../../..");
const FOLDER = join(ROOT, "docs/prometheus");
const page = readFileSync(join(ROOT, "docs/metrics.md"), "utf8");
const SERIES = { ...COUNTERS, ...HISTOGRAMS, ...GAUGES };

/** Every series of the engine, once. */
function everySeries(): string {
  const tally: Tally = {};
  const labelled = (labels: readonly string[]) => Object.fromEntries(labels.map((label) => [label, `a "${label}"`]));
  for (const [name, { labels }] of Object.entries(COUNTERS)) addCount(tally, name as never, labelled(labels), 2);
  for (const [name, { labels }] of Object.entries(HISTOGRAMS)) addObserved(tally, name as never, labelled(labels), [0.3]);
  const samples = Object.entries(GAUGES).map(([name, { labels }]) => ({ name, labels: labelled(labels), value: 1.5 }));
  return exposition(tally, samples, "text");
}

const isThere = spawnSync("promtool", ["--version"]).status === 0;
if (!isThere) console.warn("SKIPPED: promtool is not installed, so the format, the rules and their tests were not checked.");

it("every Prometheus series is readable, and documented on docs/metrics.md with its type and labels", () => {
  const read = new Set(readMetrics(everySeries()).map(({ name }) => name.replace(/^millrace_|_(bucket|sum|count)$/g, "")));
  expect([...read].sort()).toEqual(Object.keys(SERIES).sort());
  const told = rowsOf(page, "series").map(([name = "", type, labels = ""]) => ({
    name: name.replaceAll("`", ""),
    type,
    labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label),
  }));
  const typeOf = (name: string) => (name in COUNTERS ? "counter" : name in HISTOGRAMS ? "histogram" : "gauge");
  expect(told).toEqual(Object.entries(SERIES).map(([name, { labels }]) => ({ name, type: typeOf(name), labels: [...labels] })));
});

it("the Prometheus alert rules use existing series", () => {
  const rules = readFileSync(join(FOLDER, "alerts.yml"), "utf8");
  const named = [...rules.matchAll(/millrace_(\w+?)(?:_bucket)?\b(?=[\s[)])/g)].map(([, name = ""]) => name);
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((name) => !(name in SERIES))).toEqual([]);
});

it.skipIf(!isThere)("promtool reports no error in the series, the rules and the configuration", () => {
  const said = spawnSync("promtool", ["check", "metrics"], { input: everySeries(), encoding: "utf8" });
  expect(`${said.stdout}${said.stderr}`).toBe("");
  expect(said.status).toBe(0);
  for (const args of [
    ["check", "rules", "alerts.yml"],
    ["test", "rules", "alerts.test.yml"],
    ["check", "config", "--syntax-only", "prometheus.yml"],
  ]) {
    expect(execFileSync("promtool", args, { cwd: FOLDER, encoding: "utf8" })).toContain("SUCCESS");
  }
});
