import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { apiOf } from "../../packages/millrace/cli/api-client.ts";
import { prepareDatabase, useDatabase } from "../../packages/millrace/cli/local/database.ts";
import { type Engine, startEngine } from "../../packages/millrace/cli/local/engine-process.ts";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";
import { groupOf } from "../../packages/millrace/cli/local/processes.ts";
import { localToken } from "../../packages/millrace/cli/local/token.ts";
import { ROOT, WRANGLER, wranglerEnv } from "../../packages/millrace/cli/local/wrangler.ts";
import { checkout } from "../../packages/millrace/cli/project.ts";
import { emptyFolder } from "./folder.ts";

async function start(folder: string, port: number): Promise<Engine> {
  const secrets = join(folder, "secrets");
  writeFileSync(secrets, "MILLRACE_KEY=test\n");
  const engine = await startEngine({ folder, port, secrets });
  onTestFinished(() => engine.stop());
  return engine;
}

const known = async ({ url, token }: Engine) => (await apiOf(url, token).instances("kept")).length;

it("the engine's state and token survive a stop, a killed runtime and a killed process group; no process remains", async () => {
  const folder = emptyFolder();
  const port = await freePort();
  const first = await start(folder, port);
  await apiOf(first.url, first.token).enqueue([
    { type: "research.requested", payload: { brand: "acme", keyword: "tea" }, correlation_id: "kept" },
  ]);
  expect(await known(first)).toBeGreaterThan(0);

  // Wrangler's explorer would expose the database to every user of this machine; only the file's owner may read the data.
  for (const path of ["", "api", "api/d1/database"]) expect((await fetch(`${first.url}/cdn-cgi/explorer/${path}`)).status).toBe(404);
  expect(statSync(folder).mode & 0o777).toBe(0o700);

  const [runtime] = await first.kill9("runtime");
  expect(await first.answers(45_000)).toBe(true);
  expect(first.runtime()).not.toContain(runtime);
  expect(await known(first)).toBeGreaterThan(0);

  await first.kill9("everything");
  expect(groupOf(first.pid)).toEqual([]);
  const second = await start(folder, port);
  expect(second.token).toBe(first.token);
  expect(await known(second)).toBeGreaterThan(0);

  await second.stop();
  expect(groupOf(second.pid)).toEqual([]);
});

it("a new local database has every migration and the token, and no migration is applied twice", async () => {
  const folder = emptyFolder();
  const config = join(ROOT, "wrangler.jsonc");
  const d1 = (...args: string[]) =>
    execFileSync(process.execPath, [WRANGLER, "d1", ...args, "--local", "--config", config, "--persist-to", join(folder, "state")], {
      cwd: ROOT,
      env: wranglerEnv(folder),
      encoding: "utf8",
    });
  const token = localToken(join(folder, "token"));
  await prepareDatabase(folder, checkout(), token);
  expect(d1("migrations", "list", "DB")).toContain("No migrations to apply");
  // The second start changes nothing.
  await prepareDatabase(folder, checkout(), token);
  const kept = () =>
    useDatabase(join(folder, "state"), (database) =>
      database
        .prepare("SELECT (SELECT count(*) FROM d1_migrations) AS migrations, (SELECT json_group_array(id) FROM millrace_tokens) AS tokens")
        .all(),
    );
  const [, id] = token.split("_");
  const whole = [{ migrations: readdirSync(join(ROOT, "migrations")).length, tokens: JSON.stringify([id]) }];
  expect(kept()).toEqual(whole);

  // The token's file remains and its row is deleted: the row is stored again.
  rmSync(join(folder, "state"), { recursive: true });
  expect(localToken(join(folder, "token"))).toBe(token);
  await prepareDatabase(folder, checkout(), token);
  expect(kept()).toEqual(whole);
});

it("a start that exceeds its timeout reports the timeout, and no other log line as the reason", async () => {
  const folder = emptyFolder();
  const secrets = join(folder, "secrets");
  writeFileSync(secrets, "MILLRACE_KEY=test\n");
  writeFileSync(join(folder, "worker.log"), "✘ [ERROR] Of an earlier start.\n");
  const starting = startEngine({ folder, port: await freePort(), secrets, startWithinMs: 100 });
  await expect(starting).rejects.toThrow(/^The engine did not start: it did not answer within 0\.1 s\. More is in .*worker\.log\.$/);
  expect(existsSync(join(folder, "lock"))).toBe(false);
});
