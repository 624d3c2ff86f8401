import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../src/cli/local/ports.ts";
import { endGroup, groupOf, send } from "../../src/cli/local/processes.ts";
import { ROOT, WRANGLER, wranglerEnv } from "../../src/cli/local/wrangler.ts";
import { poll } from "./poll.ts";

/** As in wrangler.jsonc beside this file. */
export const KEY = "a key of the tests";

interface Runtime {
  url: URL;
  pid: number;
  /** Kills everything of it without warning. */
  kill9(): void;
  stop(): Promise<void>;
}

/** Starts the Worker beside this file on a workerd of its own, which keeps its objects in `folder`. */
export async function startRuntime(folder: string): Promise<Runtime> {
  const port = await freePort();
  const url = new URL(`http://127.0.0.1:${port}`);
  const config = join(import.meta.dirname, "wrangler.jsonc");
  const inspector = await freePort();
  const places = ["--ip", "127.0.0.1", "--port", `${port}`, "--inspector-port", `${inspector}`, "--persist-to", join(folder, "state")];
  const wrangler = spawn(process.execPath, [WRANGLER, "dev", "--config", config, ...places], {
    cwd: ROOT,
    env: wranglerEnv(folder),
    stdio: "ignore",
    detached: true,
  });
  const pid = wrangler.pid ?? 0;
  const kill9 = () => {
    send("SIGKILL", groupOf(pid));
    // What wrangler would have removed itself.
    rmSync(join(import.meta.dirname, ".wrangler"), { recursive: true, force: true });
  };
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
