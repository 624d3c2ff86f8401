import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { ts } from "@ts-morph/common";
import { expect, it } from "vitest";
import { sourceDoors } from "../../packages/millrace/cli/local/doors.ts";
import { DOOR_FOR, MAY_IMPORT, MAY_IMPORT_FILES, MAY_IMPORT_TYPES } from "./rooms.ts";
import { houseName, type Source, sources } from "./sources.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** The engine's public entry points: the names by which all other code imports them, and their files. */
const DOORS = new Map(Object.entries(sourceDoors()).map(([door, file]) => [door, houseName(relative(ROOT, file))] as const));

/** Files that import from several folders to connect them. */
const OF_KEEPER = ["systems/retention.ts", "systems/checks.ts", "systems/gauges.ts"];
const WIRING = new Set(["worker.ts", "catalog.ts", "engine/millrace.ts", "systems/finders.ts", ...OF_KEEPER, ...DOORS.values()]);

interface Import {
  from: string;
  /** Verbatim: a path, or a public name. */
  name: string;
  to: string;
  typeOnly: boolean;
}

function imports(): Import[] {
  return sources().flatMap((source) =>
    [...source.text.matchAll(/(import type [^;"]*)?(?:from|import)\s*\(?"((?:\.|millrace)[^"]*)"/g)].map((match) => ({
      from: source.file,
      name: match[2] ?? "",
      to: fileOf(source, match[2] ?? ""),
      typeOnly: match[1] !== undefined,
    })),
  );
}

function fileOf({ path }: Source, name: string): string {
  if (name.startsWith(".")) return houseName(join(dirname(path), name));
  return DOORS.get(name) ?? name;
}

function roomOf(file: string): string {
  if ([...DOORS.values()].includes(file)) return "engine";
  const parts = file.split("/");
  const inner = parts.slice(0, 2).join("/");
  return inner in MAY_IMPORT ? inner : (parts[0] ?? "");
}

it("every import follows the dependency rules between folders", () => {
  const broken = imports()
    .filter(({ from }) => !WIRING.has(from))
    .filter(({ from, to }) => roomOf(from) !== roomOf(to))
    .filter(({ from, to, typeOnly }) => !(typeOnly && MAY_IMPORT_TYPES[roomOf(from)]?.includes(roomOf(to))))
    .filter(({ from, to }) => !(MAY_IMPORT[roomOf(from)] ?? []).includes(roomOf(to)))
    .filter(({ from, to }) => !(MAY_IMPORT_FILES[roomOf(from)] ?? []).includes(to))
    .map(
      ({ from, to }) =>
        `${from} imports ${to}: the folder ${roomOf(from)} may import only ${(MAY_IMPORT[roomOf(from)] ?? []).join(", ") || "npm packages"}.`,
    );
  expect(broken).toEqual([]);
});

it("every permitted import between two folders is used", () => {
  const used = new Set(imports().map(({ from, to }) => `${roomOf(from)} ${roomOf(to)}`));
  const unused = Object.entries(MAY_IMPORT).flatMap(([room, others]) =>
    others
      .filter((other) => !used.has(`${room} ${other}`))
      .map((other) => `${room} may import from ${other}, but no file does: remove ${other} from the rule of ${room}.`),
  );
  expect(unused).toEqual([]);
});

it("the folders of the source are layered: none may import a folder that imports it, directly or indirectly", () => {
  const above = (room: string, seen: Set<string> = new Set()): Set<string> => {
    for (const other of MAY_IMPORT[room] ?? []) if (!seen.has(other)) above(other, seen.add(other));
    return seen;
  };
  expect(Object.keys(MAY_IMPORT).filter((room) => above(room).has(room))).toEqual([]);
});

it("the app imports the engine by its entry points, and the engine imports itself by file", () => {
  const byPath = imports().filter(
    ({ from, to, name }) => to.startsWith("engine/") && name.startsWith(".") && !/^(engine|cli|console)\//.test(from),
  );
  expect(
    byPath.map(({ from, name }) => `${from} imports ${name}: a file outside the engine imports one of ${[...DOORS.keys()].join(", ")}.`),
  ).toEqual([]);
  const within = imports().filter(({ from, name }) => from.startsWith("engine/") && !name.startsWith("."));
  expect(
    within.map(({ from, name }) => `${from} imports ${name}: a file of the engine imports another by its path, not by an entry point.`),
  ).toEqual([]);
});

it("routes are created by the entry point for routes only, and no source uses the entry point for tests", () => {
  const others = imports().filter(({ from, name }) => DOOR_FOR[name] && !DOOR_FOR[name].includes(roomOf(from)));
  expect(
    others.map(({ from, name }) => `${from} imports ${name}: that entry point is for ${DOOR_FOR[name]?.join(", ") || "tests"} alone.`),
  ).toEqual([]);
});

it("the Worker of the engine's tests imports only the engine's entry points, as a user's Worker would", () => {
  const probe = join(ROOT, "test/probe");
  const files = readdirSync(probe).filter((name) => name.endsWith(".ts"));
  expect(files.filter((file) => /"[^"]*\/src\//.test(readFileSync(join(probe, file), "utf8")))).toEqual([]);
});

it("no text of the engine names a file of the app, or a route that is not the engine's", () => {
  const texts = sources(/\.ts$/).filter(({ file }) => file.startsWith("engine/"));
  const own = new Set(
    texts.flatMap(({ text }) => [...text.matchAll(/(?:path: |operation\("\w+", )[`"](\/v1\/[a-z-]+)/g)].map(([, path]) => path)),
  );
  expect(own.size).toBeGreaterThan(5);
  const named = texts.flatMap(({ file, text }) =>
    [...text.matchAll(/(\/v1\/[a-z-]+)|\bsrc\/\w+/g)].map(([said, path]) => ({ file, said, path })),
  );
  const foreign = named.filter(({ path }) => path === undefined || !own.has(path));
  expect(foreign.map(({ file, said }) => `${file} names ${said}, which is the app's.`)).toEqual([]);
});

/** The maximum number of names of an entry point. An entry point that is not listed has at most 6 names. */
const MOST_NAMES: Readonly<Record<string, number>> = {
  millrace: 45,
  "millrace/operate": 50,
  ...{ "millrace/worker": 21, "millrace/http": 25, "millrace/client": 9, "millrace/testing": 14 },
};
const MOST_NAMES_IN_ALL = 170;

it("an entry point exports at most its number of names, and all entry points export at most 170", () => {
  const program = ts.createProgram(Object.values(sourceDoors()), { noResolve: true, noLib: true, allowImportingTsExtensions: true });
  const checker = program.getTypeChecker();
  const counts = Object.entries(sourceDoors()).map(([door, file]) => {
    const module = checker.getSymbolAtLocation(program.getSourceFile(file) as never);
    return [door, module === undefined ? 0 : checker.getExportsOfModule(module).length] as const;
  });
  expect(counts.filter(([, count]) => count === 0)).toEqual([]);
  expect(counts.filter(([door, count]) => count > (MOST_NAMES[door] ?? 6))).toEqual([]);
  expect(counts.reduce((sum, [, count]) => sum + count, 0)).toBeLessThanOrEqual(MOST_NAMES_IN_ALL);
});

it("no file imports worker.ts, which connects all parts", () => {
  expect(imports().filter(({ to }) => to === "worker.ts")).toEqual([]);
});

it("no file imports itself through other files", () => {
  const next = Map.groupBy(imports(), ({ from }) => from);
  const state = new Map<string, "open" | "closed">();
  const circles: string[] = [];
  const visit = (file: string, path: string[]): void => {
    if (state.get(file) === "closed") return;
    if (state.get(file) === "open") return void circles.push([...path.slice(path.indexOf(file)), file].join(" → "));
    state.set(file, "open");
    for (const { to } of next.get(file) ?? []) visit(to, [...path, file]);
    state.set(file, "closed");
  };
  for (const file of next.keys()) visit(file, []);
  expect(circles).toEqual([]);
});

it("every folder of the source has its own name", () => {
  const files = sources().map(({ file }) => file);
  expect(files.filter((file) => /(^|\/)(utils?|helpers?|common|types|misc)(\/|\.tsx?$)/.test(file))).toEqual([]);
});

it("every Durable Object that may be the first of its name is created with a location, because its location is permanent", () => {
  const placeless = sources()
    .filter(({ file }) => !file.startsWith("embedded/"))
    .flatMap(({ file, text }) =>
      text
        .split("\n")
        .filter((line) => /\.get\(.*idFromName\(|getByName\(|\b[A-Z_]+\.get\(id\b/.test(line) && !line.includes("placed(env)"))
        .map((line) => `${file} asks for an object without placed(env): ${line.trim()}`),
    );
  expect(placeless).toEqual([]);
});
