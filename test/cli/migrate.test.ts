import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { ROOT, WRANGLER } from "../../packages/millrace/cli/local/wrangler.ts";
import { emptyFolder } from "./folder.ts";

const CONFIG = {
  name: "shop",
  main: "worker.ts",
  compatibility_date: "2026-10-01",
  d1_databases: [{ binding: "DB", database_name: "shop" }],
};

/** A Worker's folder with two migrations, the second of which can be made invalid. */
function shop(second = "ALTER TABLE orders ADD COLUMN paid INTEGER;"): string {
  const root = emptyFolder();
  symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"), "dir");
  mkdirSync(join(root, "migrations"));
  writeFileSync(join(root, "wrangler.jsonc"), JSON.stringify(CONFIG));
  writeFileSync(join(root, "migrations/0001_orders.sql"), "CREATE TABLE orders (id TEXT PRIMARY KEY);\n");
  writeFileSync(join(root, "migrations/0002_paid.sql"), second);
  return root;
}

/** Runs the command until it exits. */
const migrate = (root: string, args: readonly string[], env?: Record<string, string>) => millrace(root, ["migrate", ...args], env);

async function millrace(root: string, args: readonly string[], env: Record<string, string> = {}) {
  const child = execFile(process.execPath, [join(ROOT, "packages/millrace/cli/launch.js"), ...args], {
    cwd: root,
    env: { ...process.env, NO_COLOR: "1", ...env },
  });
  child.stdin?.end();
  const read = (stream: Readable | null) => (stream ? text(stream) : "");
  const [[code], out, err] = await Promise.all([once(child, "close"), read(child.stdout), read(child.stderr)]);
  return { code, out, err };
}

it("migrate lists the missing migrations, applies them, and reports an up-to-date database the second time", async () => {
  const root = shop();
  const plan = await migrate(root, ["--dry-run"]);
  expect(plan).toMatchObject({ code: 0, err: "" });
  expect(plan.out.match(/to apply {2}\S+/g)?.map((line) => line.split("/").at(-1))).toEqual([
    "0001_millrace.sql",
    "0001_orders.sql",
    "0002_paid.sql",
  ]);
  expect((await migrate(root, [])).out).toContain("Applied 3 to the database of `millrace dev`.");
  const again = await migrate(root, []);
  expect(again.out).toContain("No migration is missing");
  expect(again.out).not.toContain("to apply ");
});

it("migrate applies the migrations to the local database of each cell, and a token is stored in the cell of its tenant", async () => {
  const root = shop();
  const d1_databases = [...CONFIG.d1_databases, { binding: "DB_2", database_name: "shop-2" }];
  writeFileSync(join(root, "wrangler.jsonc"), JSON.stringify({ ...CONFIG, vars: { CELLS: 2 } }));
  expect((await migrate(root, [])).err).toContain("binds no database as DB_2");
  writeFileSync(join(root, "wrangler.jsonc"), JSON.stringify({ ...CONFIG, vars: { CELLS: 2 }, d1_databases }));
  expect((await migrate(root, [])).out).toContain("Applied 6 to the database of `millrace dev`.");
  const again = await migrate(root, []);
  expect(again.out).toMatch(/applied {3}\S+0001_orders.sql {2}DB\n/);
  expect(again.out).toMatch(/applied {3}\S+0001_orders.sql {2}DB_2\n/);
  expect(again.out).toContain("No migration is missing");
  const tokenOf = async (tenant: string) => (await millrace(root, ["token", "--tenant", tenant, "--actor", "ada"])).out;
  expect(await tokenOf("initech")).toMatch(/^mr_[0-9a-f]{16}_/);
  const token = await tokenOf("acme");
  expect(token).toMatch(/^mr_x002[0-9a-f]{12}_/);
  const id = token.slice(3, 19);
  expect((await millrace(root, ["token", "list", "--tenant", "acme"])).out).toContain(id);
  expect((await millrace(root, ["token", "revoke", id])).err).toContain(`Revoked: ${id}, of ada in acme`);
});

it("migrate --persist-to applies the migrations to the state of wrangler dev, which lists them as applied", async () => {
  const root = shop();
  const state = join(root, ".wrangler/state");
  expect(await migrate(root, ["--remote", "--persist-to", state])).toMatchObject({ code: 2 });
  expect((await migrate(root, ["--persist-to", state])).out).toContain(`Applied 3 to the database of ${state}.`);
  const list = ["d1", "migrations", "list", "DB", "--local"];
  const { stdout } = await promisify(execFile)(process.execPath, [WRANGLER, ...list], { cwd: root, env: { ...process.env, CI: "1" } });
  expect(stdout).toContain("No migrations to apply");
});

it("migrate reports a failing migration with the database's message, and earlier migrations remain applied", async () => {
  const root = shop("ALTER TABLE none ADD COLUMN paid INTEGER;");
  const { code, err } = await migrate(root, []);
  expect([code, err]).toEqual([1, expect.stringMatching(/The migration migrations\/0002_paid\.sql failed: .*no such table: none/)]);
  expect((await migrate(root, ["--dry-run"])).out.match(/to apply {2}\S+/g)).toEqual(["to apply  migrations/0002_paid.sql"]);
});

it.each([
  ["COMMIT", "CREATE TABLE paid (id TEXT);\nCOMMIT;\nALTER TABLE none ADD COLUMN paid INTEGER;", "0002_paid.sql:2 has COMMIT"],
  ["BEGIN", "/* ; */ begin immediate; CREATE TABLE paid (id TEXT); commit;", "0002_paid.sql:1 has BEGIN"],
  ["END", "CREATE TABLE paid (id TEXT); -- ' \n;END TRANSACTION;", "0002_paid.sql:2 has END"],
  ["SAVEPOINT", "CREATE TABLE paid (id TEXT);\n\nSAVEPOINT one;", "0002_paid.sql:3 has SAVEPOINT"],
])("migrate refuses a migration with %s before it applies any migration", async (_, second, says) => {
  const root = shop(second);
  const { code, err } = await migrate(root, []);
  expect([code, err]).toEqual([1, expect.stringContaining(says)]);
  expect((await migrate(root, ["--dry-run"])).out.match(/to apply /g)).toHaveLength(3);
});

it("migrate applies a migration with a trigger, and with COMMIT in strings and comments", async () => {
  const root = shop(`-- COMMIT;
    CREATE TABLE notes (text TEXT DEFAULT 'it''s; COMMIT;', "; END" TEXT);
    CREATE TRIGGER copied AFTER INSERT ON orders BEGIN
      INSERT INTO notes (text) VALUES (CASE WHEN new.id = '1' THEN 'one' ELSE 'more' END);
      DELETE FROM notes WHERE text = ''; END;
    CREATE TABLE after_it (id TEXT);`);
  expect(await migrate(root, [])).toMatchObject({ code: 0, out: expect.stringContaining("Applied 3") });
});

it.each(["millrace_migrations", "Millrace_Instances"])(
  "migrate refuses %s as migrations_table, because the engine has tables with that prefix",
  async (migrations_table) => {
    const root = shop();
    writeFileSync(
      join(root, "wrangler.jsonc"),
      JSON.stringify({ ...CONFIG, d1_databases: [{ ...CONFIG.d1_databases[0], migrations_table }] }),
    );
    const { code, err } = await migrate(root, ["--dry-run"]);
    expect([code, err]).toEqual([
      1,
      expect.stringContaining(`is "${migrations_table}", but tables with "millrace_" belong to the engine.`),
    ]);
  },
);

/** The API of an account with one database, limited to wrangler's D1 requests. */
async function account(): Promise<{ database: DatabaseSync; env: Record<string, string> }> {
  const database = new DatabaseSync(":memory:");
  const run = (sql: string) => {
    database.exec(sql);
    return [];
  };
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const path = new URL(request.url ?? "", "http://localhost").pathname;
    const answer = (status: number, result: unknown, errors: unknown[] = []) => {
      response.writeHead(status, { "content-type": "application/json" });
      const result_info = { page: 1, per_page: 10, count: 1, total_count: 1 };
      response.end(JSON.stringify({ success: status === 200, result, errors, messages: [], result_info }));
    };
    if (!path.endsWith("/query"))
      return answer(200, path.endsWith("/d1/database") ? [{ uuid: "1", name: "shop" }] : { uuid: "1", name: "shop" });
    const { sql } = JSON.parse(body) as { sql: string };
    try {
      const results = /^\s*SELECT/i.test(sql) ? database.prepare(sql).all() : run(sql);
      return answer(200, [{ results, success: true, meta: { duration: 1 } }]);
    } catch (error) {
      return answer(400, null, [{ code: 7500, message: (error as Error).message }]);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const base = `http://127.0.0.1:${port}/client/v4`;
  return { database, env: { CLOUDFLARE_API_BASE_URL: base, CLOUDFLARE_API_TOKEN: "t", CLOUDFLARE_ACCOUNT_ID: "a" } };
}

it("migrate --remote asks for confirmation, and applies the engine's migrations and, through wrangler, those of the Worker", async () => {
  const root = shop();
  const { database, env } = await account();
  const tables = () =>
    database
      .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")
      .all()
      .map(({ name }) => name);
  const asked = await migrate(root, ["--remote"], env);
  expect(asked).toMatchObject({ code: 2, err: "" });
  expect(asked.out).toContain("npx millrace migrate --remote --yes");
  expect(tables()).toEqual([]);
  const done = await migrate(root, ["--remote", "--yes"], env);
  expect(done.out + done.err).toContain("Applied 3 to the deployed database shop.");
  expect(tables()).toEqual(expect.arrayContaining(["orders", "millrace_instances", "millrace_migrations", "d1_migrations"]));
  expect((await migrate(root, ["--remote"], env)).out).toContain("No migration is missing");
});
