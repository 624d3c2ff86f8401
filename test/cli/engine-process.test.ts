import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { apiOf } from "../../src/cli/api-client.ts";
import { type Engine, startEngine } from "../../src/cli/local/engine-process.ts";
import { freePort } from "../../src/cli/local/ports.ts";
import { groupOf } from "../../src/cli/local/processes.ts";
import { emptyFolder } from "./folder.ts";

async function start(folder: string, port: number): Promise<Engine> {
  const secrets = join(folder, "secrets");
  writeFileSync(secrets, "MILLRACE_KEY=test\n");
  const engine = await startEngine({ folder, port, secrets });
  onTestFinished(() => engine.stop());
  return engine;
}

const known = async ({ url, token }: Engine) => (await apiOf(url, token).instances("kept")).length;

it("state and token outlive a stop, a killed runtime and a killed everything; nothing is left running", async () => {
  const folder = emptyFolder();
  const port = await freePort();
  const first = await start(folder, port);
  await apiOf(first.url, first.token).enqueue([
    { type: "research.requested", payload: { brand: "acme", keyword: "tea" }, correlation_id: "kept" },
  ]);
  expect(await known(first)).toBeGreaterThan(0);

  const [runtime] = await first.kill9("runtime");
  expect(await first.answers(20_000)).toBe(true);
  expect(first.runtime()).not.toContain(runtime);
  expect(await known(first)).toBeGreaterThan(0);

  await first.kill9("everything");
  expect(groupOf(first.pid)).toEqual([]);
  const second = await start(folder, port);
  expect(second.token).toBe(first.token);
  expect(await known(second)).toBeGreaterThan(0);

  await second.stop();
  expect(groupOf(second.pid)).toEqual([]);

  // The token's file is kept and its row is gone: it is stored again.
  rmSync(join(folder, "state"), { recursive: true });
  const third = await start(folder, port);
  expect(third.token).toBe(first.token);
  expect(await known(third)).toBe(0);
});
