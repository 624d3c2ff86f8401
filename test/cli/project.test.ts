import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { findProject } from "../../packages/millrace/cli/project.ts";
import { readConfig } from "../../packages/millrace/cli/wiring/config.ts";
import { emptyFolder } from "./folder.ts";

function folderWith(files: Record<string, string>): string {
  const root = emptyFolder();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
  return root;
}

const D1 = { binding: "DB", database_name: "shop" };

it("a project is found from its subfolder, with the name and the main file of the Worker", () => {
  const root = folderWith({ "wrangler.jsonc": '{ "name": "shop", "main": "./src/index.ts", }', "src/routes/index.ts": "" });
  const project = findProject({ from: join(root, "src/routes") });
  expect(project).toMatchObject({ root, config: join(root, "wrangler.jsonc"), format: "jsonc", name: "shop", main: "src/index.ts" });
  expect(project.stateFolder).toBe(join(root, ".millrace"));
});

it("an environment of a wrangler.toml has its own database and inherits the main file", () => {
  const toml = `name = "shop"\nmain = "worker.ts"\n[[d1_databases]]\nbinding = "DB"\nmigrations_dir = "a"\n
[[env.staging.d1_databases]]\nbinding = "DB"\nmigrations_dir = "b"\n`;
  const root = folderWith({ "wrangler.toml": toml, "a/0001_a.sql": "", "b/0001_b.sql": "" });
  const staging = findProject({ from: root, env: "staging" });
  expect(staging).toMatchObject({ format: "toml", name: "shop-staging", main: "worker.ts", env: "staging" });
  expect(staging.migrations.files().map(({ name }) => name)).toEqual(["0001_millrace.sql", "0001_b.sql"]);
  expect(() => findProject({ from: root, env: "live" })).toThrow(
    'has no environment "live". Add it under "env", empty, then run: npx millrace init --env live',
  );
});

it("an app's migrations have wrangler's names and order, and follow the engine's migrations, which have a separate table", () => {
  const root = folderWith({
    "wrangler.jsonc": JSON.stringify({ name: "shop", d1_databases: [{ ...D1, migrations_table: "applied" }] }),
    "migrations/0002_b.sql": "",
    "migrations/0010_c.sql": "",
    "migrations/0001_a.sql": "",
    "migrations/notes.md": "",
  });
  const { migrations } = findProject({ from: root });
  expect(migrations.files().map(({ name, table }) => [table, name])).toEqual([
    ["millrace_migrations", "0001_millrace.sql"],
    ["applied", "0001_a.sql"],
    ["applied", "0002_b.sql"],
    ["applied", "0010_c.sql"],
  ]);
  expect(migrations.folders[0]).toBe(join(root, "migrations"));
});

it("migrations of nested folders are found by migrations_pattern", () => {
  const database = { ...D1, migrations_dir: "db", migrations_pattern: "./db/{a,b}/*.sql" };
  const root = folderWith({ "wrangler.jsonc": JSON.stringify({ d1_databases: [database] }), "db/b/0001_x.sql": "", "db/a/0002_y.sql": "" });
  const { migrations } = findProject({ from: root });
  const own = migrations.files().filter(({ table }) => table === "d1_migrations");
  expect(own.map(({ name }) => name)).toEqual(["a/0002_y.sql", "b/0001_x.sql"]);
  expect(migrations.folders.slice(0, 2)).toEqual([join(root, "db/a"), join(root, "db/b")]);
});

it("a missing configuration, a missing wrangler, and a missing --config file are reported with an instruction", () => {
  const root = emptyFolder();
  expect(() => findProject({ from: root })).toThrow("npx millrace init");
  expect(() => findProject({ config: join(root, "x.jsonc") })).toThrow("There is no file");
  const project = findProject({ from: folderWith({ "wrangler.json": "{}" }) });
  expect(() => project.wrangler).toThrow("npm install -D wrangler");
});

it("an error in a wrangler.toml is reported with its line", () => {
  const root = folderWith({ "wrangler.toml": 'name = "shop"\nmain = \nd = 1\n' });
  expect(() => readConfig(join(root, "wrangler.toml"))).toThrow(/wrangler\.toml:2 is not TOML: /);
});
