import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
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

interface Panel {
  id: number;
  title: string;
  type: string;
  gridPos: Record<"x" | "y" | "w" | "h", number>;
  datasource: { uid: string };
  fieldConfig: { defaults: { unit: string } };
  targets: { refId: string; expr: string; legendFormat: string; datasource: { uid: string } }[];
}
interface Dashboard {
  schemaVersion: number;
  templating: { list: { name: string; definition?: string }[] };
  panels: Panel[];
}
const dashboard = JSON.parse(readFileSync(join(FOLDER, "grafana.json"), "utf8")) as Dashboard;
const targets = dashboard.panels.flatMap((panel) => panel.targets);

/** The series of an expression, and the labels that it names and that these series do not have. */
function namesOf({ expr, legendFormat }: { expr: string; legendFormat: string }) {
  const series = [...expr.matchAll(/millrace_(\w+?)(_bucket)?(?=[{)[])/g)].map(([, name = "", bucket]) => ({ name, bucket }));
  const had = series.flatMap(({ name, bucket }) => [...(SERIES[name as keyof typeof SERIES]?.labels ?? []), ...(bucket ? ["le"] : [])]);
  const by = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, labels = ""]) => labels.split(", "));
  const selected = [...expr.matchAll(/(\w+)(?:=~|=)"/g)].map(([, label = ""]) => label);
  const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label);
  const wrong = [...[...by, ...selected].filter((label) => !had.includes(label)), ...shown.filter((label) => !by.includes(label))];
  return { series, wrong };
}

it("each expression of the dashboard names series and labels that exist", () => {
  for (const target of targets) {
    const { series, wrong } = namesOf(target);
    expect([series.length, wrong], target.expr).toEqual([1, []]);
    expect(series.filter(({ name, bucket }) => !(name in SERIES) || !!bucket !== name in HISTOGRAMS)).toEqual([]);
    expect(target.expr.includes("rate(")).toBe(series.every(({ name }) => !(name in GAUGES)));
  }
  expect(namesOf({ expr: 'sum by (workflow) (rate(millrace_queue_dlq_total{step="a"}[5m]))', legendFormat: "{{code}}" }).wrong).toEqual([
    ...["workflow", "step", "code"],
  ]);
});

it("the dashboard has the fields that Grafana imports: panels that do not overlap, declared variables, one data source", () => {
  const { schemaVersion, panels, templating } = dashboard;
  expect(schemaVersion).toBeGreaterThanOrEqual(36);
  expect(panels.map(({ id }) => id)).toEqual(panels.map((_, nth) => nth + 1));
  expect(panels.filter(({ type }) => !["timeseries", "stat"].includes(type))).toEqual([]);
  expect(panels.filter(({ fieldConfig }) => !["short", "s", "ops"].includes(fieldConfig.defaults.unit))).toEqual([]);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, nth) => [x + (nth % w), y + Math.floor(nth / w)] as const),
  );
  expect(new Set(cells.map(String)).size).toBe(cells.length);
  expect(Math.max(...cells.map(([x]) => x))).toBe(23);
  for (const { targets } of panels) expect(new Set(targets.map(({ refId }) => refId)).size).toBe(targets.length);
  const sources = new Set([...panels, ...targets].map(({ datasource }) => datasource.uid));
  expect([...sources].join()).toMatch(/^\$\{datasource\}$/);
  const declared = templating.list.map(({ name }) => `$${name}`);
  const used = targets.flatMap(({ expr }) => expr.match(/\$[a-z]\w*/g) ?? []);
  expect(used.filter((name) => !declared.includes(name))).toEqual([]);
  for (const { definition, name } of templating.list.filter(({ definition }) => definition)) {
    const [, series = "", label] = /^label_values\(millrace_(\w+), (\w+)\)$/.exec(definition ?? "") ?? [];
    expect([label, SERIES[series as keyof typeof SERIES]?.labels]).toEqual([name, expect.arrayContaining([label])]);
  }
});

it.skipIf(!isThere)("promtool reads each expression of the dashboard", () => {
  const read = (expr: string) => expr.replaceAll("$__rate_interval", "5m").replaceAll(/\$\w+/g, ".*");
  const rules = targets.map(({ expr }, nth) => ({ record: `panel:${nth}`, expr: read(expr) }));
  const file = join(mkdtempSync(join(tmpdir(), "millrace-panels-")), "rules.yml");
  writeFileSync(file, JSON.stringify({ groups: [{ name: "panels", rules }] }));
  expect(execFileSync("promtool", ["check", "rules", file], { encoding: "utf8" })).toContain("SUCCESS");
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
