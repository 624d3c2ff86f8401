import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { houseName } from "../house/sources.ts";
import { LAST_TIMES, ROOT, readTimes, type Took } from "./took.ts";

/** Modules that import everything: a test that imports them is not near to any source. */
const HUBS = ["src/worker.ts", "src/catalog.ts", "test/probe/worker.ts"];

/** The test folders of a source folder that has no test folder of the same name. */
const TESTED_IN: Record<string, readonly string[]> = {
  "systems/contacts": ["systems/crm", "systems/privacy"],
  "engine/access": ["api"],
  "engine/archive": ["engine/keeper"],
  "engine/check": ["engine/workflow", "cli"],
  "engine/inspect": ["engine/inspect", "api"],
  "engine/erase": ["systems/privacy"],
  "engine/http": ["engine/http", "api"],
  "engine/limits": ["engine/limits", "providers"],
  "engine/turns": ["engine/lanes"],
  "engine/testing": ["engine/intake"],
  embedded: ["providers"],
  steps: ["app", "systems/content"],
  workflows: ["app"],
  consumers: ["app"],
  messages: ["app"],
};

/** The time budget of the selected files by their last durations, so that a run ends within 30 s including the runtimes' start. */
const BUDGET_MS = 15_000;

/** The assumed duration of a file that has never run here; files that start whole engines are excluded. */
const UNKNOWN_MS = 1500;
const STARTS_ENGINES = /test\/(cli\/engine-process|demo\/demo|examples\/|chaos\/|docs\/static\/(token|write))/;

export interface Near {
  changed: string[];
  /** The selected tests, nearest first. */
  files: string[];
  /** The number of affected tests that are not selected. */
  left: number;
}

/** The tests nearest to the difference from the last commit, or to that commit if there is none. */
export function nearestTests(): Near {
  const lines = (...args: string[]) =>
    execFileSync("git", args, { cwd: ROOT, encoding: "utf8" })
      .split("\n")
      .filter((line) => line !== "");
  const uncommitted = [...lines("diff", "--name-only", "HEAD"), ...lines("ls-files", "--others", "--exclude-standard")];
  const changed = uncommitted.length > 0 ? uncommitted : lines("diff", "--name-only", "HEAD~1");
  const known = lines("ls-files", "--cached", "--others", "--exclude-standard", "demo", "packages", "src", "test").filter((file) =>
    existsSync(join(ROOT, file)),
  );
  const ranked = rank(changed, known, importsOf);
  const files = within(ranked, changed, readTimes(LAST_TIMES));
  return { changed, files, left: ranked.length - files.length };
}

/** The first tests of a ranked list, within the budget; changed tests are always included. */
export function within(ranked: readonly string[], changed: readonly string[], times: readonly Took[]): string[] {
  const known = new Map(times.map(({ file, ms }) => [file, ms]));
  const cost = (file: string) => known.get(file) ?? (STARTS_ENGINES.test(file) ? BUDGET_MS : UNKNOWN_MS);
  let left = BUDGET_MS;
  return ranked.filter((file) => {
    if (changed.includes(file)) return true;
    if (cost(file) >= left) return false;
    left -= cost(file);
    return true;
  });
}

/** All tests that a change affects, nearest first: the changed ones, those that import a changed file, then those of its folder. */
export function rank(changed: readonly string[], known: readonly string[], imports: (file: string) => readonly string[]): string[] {
  const importers = new Map<string, string[]>();
  for (const file of known.filter((name) => name.endsWith(".ts")))
    for (const used of imports(file)) importers.set(used, [...(importers.get(used) ?? []), file]);

  const distance = new Map(changed.map((file) => [file, 0]));
  for (const [file, far] of distance) {
    if (HUBS.includes(file)) continue;
    for (const importer of importers.get(file) ?? []) if (!distance.has(importer)) distance.set(importer, far + 1);
  }
  const rooms = new Set(changed.flatMap(roomsOf));
  for (const file of known) if (!distance.has(file) && rooms.has(dirname(file))) distance.set(file, Number.MAX_SAFE_INTEGER);
  return known
    .filter((file) => file.endsWith(".test.ts") && distance.has(file))
    .toSorted((one, other) => (distance.get(one) ?? 0) - (distance.get(other) ?? 0));
}

/** The test folders that belong to a source file. */
export function roomsOf(file: string): string[] {
  const name = houseName(file);
  if (name === file) return [];
  const [floor = "", inner = ""] = name.split("/");
  const room = ["systems", "engine"].includes(floor) ? `${floor}/${inner}` : floor;
  return (TESTED_IN[room] ?? [room]).map((name) => `test/${name}`);
}

function importsOf(file: string): string[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  return [...text.matchAll(/(?:from|import) "(\.[^"]+)"/g)].map(([, path = ""]) => relative(ROOT, join(ROOT, dirname(file), path)));
}
