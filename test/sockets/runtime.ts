import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundled } from "../../packages/millrace/cli/local/bundle.ts";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";
import { endGroup, groupOf, send } from "../../packages/millrace/cli/local/processes.ts";
import { wranglerEnv } from "../../packages/millrace/cli/local/wrangler.ts";
import { serveArgs } from "../../packages/millrace/cli/local/wrangler-dev.ts";
import { poll } from "./poll.ts";

/** As in the wrangler.jsonc in this folder. */
export const KEY = "a key of the tests";

interface Runtime {
  url: URL;
  pid: number;
  /** Kills all its processes without warning. */
  kill9(): void;
  stop(): Promise<void>;
}

/** Starts the Worker in this folder on a separate workerd, which stores its objects in `folder`. */
export async function startRuntime(folder: string): Promise<Runtime> {
  const port = await freePort();
  const url = new URL(`http://127.0.0.1:${port}`);
  const secrets = join(folder, "secrets");
  writeFileSync(secrets, "");
  const bundle = await bundled(join(import.meta.dirname, "wrangler.jsonc"));
  const first = spawn(process.execPath, serveArgs({ folder, port, secrets, vars: {} }, bundle), {
    env: wranglerEnv(folder),
    stdio: "ignore",
    detached: true,
  });
  const pid = first.pid ?? 0;
  const kill9 = () => send("SIGKILL", groupOf(pid));
  process.once("exit", kill9);
  const answers = () =>
    fetch(url).then(
      () => true,
      () => false,
    );
  await poll(answers, "the runtime answers");
  return {
    url,
    pid,
    kill9,
    async stop() {
      await endGroup(pid);
      process.off("exit", kill9);
    },
  };
}
