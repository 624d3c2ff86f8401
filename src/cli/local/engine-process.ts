import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import { type FolderLock, lockFolder } from "./folder-lock.ts";
import { requireFree } from "./ports.ts";
import { bundle, devArgs, prepareDatabase } from "./prepare.ts";
import { endGroup, groupOf, send } from "./processes.ts";
import { localToken } from "./token.ts";
import { openLog } from "./worker-log.ts";
import { lastError, ROOT, shown, WRANGLER, wranglerEnv } from "./wrangler.ts";

export interface EngineOptions {
  /** Keeps all of this engine: `state`, `token`, `worker.log`. A later start on the same folder goes on where this one ended. */
  folder: string;
  port: number;
  /** The file with the secrets, in the format of `.dev.vars`. */
  secrets: string;
  vars?: Record<string, string>;
  /** Default: `wrangler.jsonc` of this checkout. It binds its database as `DB`, and its Worker answers `GET /healthz`. */
  config?: string;
  /** True loads the Worker anew when a source changes; false bundles it once. Default: false. */
  watch?: boolean;
  /** True forgets what an earlier engine left in the folder. Default: false. */
  fresh?: boolean;
  /** Gives the start up. */
  signal?: AbortSignal;
}

/** A local engine: `wrangler dev` and the two workerds it runs. */
export interface Engine {
  url: string;
  token: string;
  /** Wrangler's, which is also the id of the process group in which all of the engine lives. */
  pid: number;
  /** Where wrangler and the Worker write. */
  logFile: string;
  /** Resolves when wrangler has ended, by itself or not. */
  ended: Promise<unknown>;
  /** The ids of the workerd that runs the Worker and holds all state. Wrangler starts another when it dies. */
  runtime(): number[];
  /** Waits until the Worker answers: false when it did not in time, or wrangler has ended. */
  answers(withinMs?: number): Promise<boolean>;
  stop(): Promise<void>;
  /** Kills without warning. Answers the ids of what died. */
  kill9(what: "runtime" | "everything"): Promise<number[]>;
}

const LOG = "worker.log";
const START_MS = 60_000;
const ASK_EVERY_MS = 50;
const ANSWER_MS = 2000;

/**
 * Starts an engine and waits until it answers. Errors: a `Refusal`, whose sentence says what to do.
 *
 * What wrangler 4.156 does when its processes die (seen): it runs two workerds, a proxy that owns the public port and the one that
 * runs the Worker. `kill -9` of the latter: wrangler starts another on the same state, which answers 0.4 to 0.8 s later. Of the
 * proxy: a new one comes, listens, and never answers; only a new wrangler helps. Of wrangler: both workerds live on and hold the
 * port and the state, so whoever kills it must kill the whole group. Asked to end (TERM or INT), wrangler exits within 0.1 s and
 * its workerds up to 1 s later: the engine has stopped when its group is gone, not when wrangler is.
 */
export async function startEngine(options: EngineOptions): Promise<Engine> {
  const { folder, port, secrets, vars, config = join(ROOT, "wrangler.jsonc"), watch = false, fresh = false, signal } = options;
  mkdirSync(folder, { recursive: true });
  const url = `http://localhost:${port}`;
  const lock = await lockFolder(folder, url);
  try {
    await requireFree(port);
    if (fresh) for (const left of ["state", "token", LOG]) rmSync(join(folder, left), { recursive: true, force: true });
    const token = localToken(join(folder, "token"));
    const [script] = await Promise.all([watch ? [] : bundle(folder, config), prepareDatabase(folder, config, token)]);
    signal?.throwIfAborted();
    const args = [...script, ...devArgs({ folder, port, secrets, config, vars: { PUBLIC_URL: url, ...vars } })];
    const engine = run({ url, token, folder, args, lock, signal });
    if (await engine.answers(START_MS)) return engine;
    await engine.stop();
    signal?.throwIfAborted();
    throw new Refusal(`The engine did not start: ${lastError(readFileSync(engine.logFile, "utf8"))} More is in ${shown(engine.logFile)}.`);
  } catch (error) {
    lock.release();
    throw error;
  }
}

interface Running {
  url: string;
  token: string;
  folder: string;
  args: string[];
  lock: FolderLock;
  signal: AbortSignal | undefined;
}

function run({ url, token, folder, args, lock, signal }: Running): Engine {
  const logFile = join(folder, LOG);
  const log = openLog(logFile);
  // Its own group: Ctrl-C in the terminal reaches only us, and we end it in good order.
  const wrangler = spawn(process.execPath, [WRANGLER, "dev", ...args], {
    cwd: ROOT,
    env: wranglerEnv(folder),
    stdio: ["ignore", log, log],
    detached: true,
  });
  closeSync(log);
  const ended = once(wrangler, "exit");
  const pid = wrangler.pid ?? 0;
  const killAll = () => send("SIGKILL", groupOf(pid));
  lock.holds(pid);
  // The last resort of a process that ends without stop().
  process.once("exit", killAll);

  /** The proxy is the one that was told the public port. */
  const runtime = () =>
    groupOf(pid).filter(({ command }) => /workerd[^ ]* serve/.test(command) && !command.includes(`entry=127.0.0.1:${new URL(url).port} `));
  const released = () => {
    process.off("exit", killAll);
    lock.release();
  };

  return {
    url,
    token,
    pid,
    logFile,
    ended,
    runtime: () => runtime().map((one) => one.pid),
    async answers(withinMs = START_MS) {
      const deadline = Date.now() + withinMs;
      while (Date.now() < deadline && wrangler.exitCode === null && wrangler.signalCode === null && !signal?.aborted) {
        const answer = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(ANSWER_MS) }).catch(() => undefined);
        if (answer?.ok) return true;
        await sleep(ASK_EVERY_MS);
      }
      return false;
    },
    async stop() {
      await endGroup(pid);
      released();
    },
    async kill9(what) {
      const doomed = what === "runtime" ? runtime() : groupOf(pid);
      send("SIGKILL", doomed);
      if (what === "everything") {
        await endGroup(pid);
        released();
      }
      return doomed.map((one) => one.pid);
    },
  };
}
