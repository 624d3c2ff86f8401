import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { besideOf } from "./doors.ts";
import type { FolderLock } from "./folder-lock.ts";
import { becomesWell } from "./health.ts";
import { endGroup, groupOf, send } from "./processes.ts";
import { openLog, sizeOf } from "./worker-log.ts";
import { untriedWords, wranglerEnv, wranglerVersion } from "./wrangler.ts";

/** A local engine: `wrangler dev` with two workerds, or `serve.ts` with one. */
export interface Engine {
  url: string;
  token: string;
  /** The process id of the engine's first process. The process group with this id contains the whole engine. */
  pid: number;
  logFile: string;
  /** The offset of this engine's first line in the log file, in bytes. */
  logFrom: number;
  /** Resolves with the exit code or the signal of the first process. */
  ended: Promise<unknown[]>;
  /** The ids of the workerd processes that run the Worker and its state. Wrangler restarts such a process if the process dies. */
  runtime(): number[];
  /** The ids of the workerd processes that listen on the public port. Without such a process, the engine does not answer. */
  front(): number[];
  /** Waits for an answer of the Worker. Resolves with false after a timeout, or if the first process ends. */
  answers(withinMs: number): Promise<boolean>;
  stop(): Promise<void>;
  /** Sends SIGKILL. Returns the ids of the killed processes. */
  kill9(what: "runtime" | "everything"): Promise<number[]>;
}

export const LOG_NAME = "worker.log";

interface Running {
  url: string;
  token: string;
  folder: string;
  cwd: string;
  /** The program and arguments of the first process, from `devArgs` or `serveArgs`. */
  args: string[];
  lock: FolderLock;
}

/**
 * Runs an engine in its own process group. Ctrl-C then reaches only the current process, which ends the engine in an orderly way.
 * Measured with wrangler 4.156, which runs a proxy on the public port and a runtime for the Worker:
 * - `kill -9` of the runtime: wrangler starts a new runtime with the same state within 0.4 to 0.8 s.
 * - `kill -9` of the proxy: a new proxy listens after 0.4 to 2 s, but never answers. Only a restart of wrangler helps.
 * - `kill -9` of the first process: both workerds keep running, with the port and the state. So the whole group must be killed.
 * - SIGTERM or SIGINT: the first process ends after 0.05 s, and the last process of the group after 0.1 to 0.2 s. The engine has stopped
 *   when the whole group has ended.
 *
 * If the workerd of `serve.ts` dies, `serve.ts` restarts it with the same state and port.
 */
export function runDev({ url, token, folder, cwd, args, lock }: Running): Engine {
  const logFile = join(folder, LOG_NAME);
  const log = openLog(logFile);
  const logFrom = sizeOf(logFile);
  const first = spawn(process.execPath, args, {
    cwd,
    env: wranglerEnv(folder),
    stdio: ["ignore", log, log],
    detached: true,
  });
  closeSync(log);
  const gone = new AbortController();
  const ended = once(first, "exit").finally(() => gone.abort());
  const pid = first.pid ?? 0;
  const killAll = () => send("SIGKILL", groupOf(pid));
  lock.holds(pid);
  // Ends the engine if the current process ends without a call of stop().
  process.once("exit", killAll);

  const workerds = () => groupOf(pid).filter(({ command }) => /workerd[^ ]* serve/.test(command));
  /** Matches the workerd that listens on the public port: wrangler's proxy, or the single workerd of `serve.ts`. */
  const isFront = ({ command }: { command: string }) => command.includes(`entry=127.0.0.1:${new URL(url).port} `);
  const runtime = () => workerds().filter((one) => args[0] === SERVE || !isFront(one));
  const released = () => {
    process.off("exit", killAll);
    lock.release();
  };

  return {
    url,
    token,
    pid,
    logFile,
    logFrom,
    ended,
    runtime: () => runtime().map((one) => one.pid),
    front: () => workerds().flatMap((one) => (isFront(one) ? [one.pid] : [])),
    answers: (withinMs) => becomesWell(url, AbortSignal.any([gone.signal, AbortSignal.timeout(withinMs)])),
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

interface Told {
  folder: string;
  port: number;
  secrets: string;
  vars: Record<string, string>;
}

/**
 * The arguments of `wrangler dev` for a Worker that is reloaded when it changes: it listens only on the loopback address, without questions
 * and without the inspector. If Millrace was not tested with a version of wrangler, the faster start is not used, because it changes the
 * runtime's configuration.
 */
export function devArgs(wrangler: string, told: Told, { script, config }: { script: string; config: string }): string[] {
  const alone = ["--ip", "127.0.0.1", "--inspector-port", "0", "--show-interactive-dev-session=false"];
  const lighter = untriedWords(wranglerVersion(wrangler)) === undefined ? ["--import", LIGHTER_START] : [];
  return [...lighter, wrangler, "dev", script, "--config", config, ...alone, ...toldArgs(told)];
}

export function serveArgs(told: Told, bundle: string): string[] {
  return [SERVE, "--bundle", bundle, ...toldArgs(told)];
}

const SERVE = besideOf(import.meta.filename, "serve");
/** The file is named by a URL, because `#` and `?` in a folder's name would end the path of a module. */
const LIGHTER_START = pathToFileURL(besideOf(import.meta.filename, "lighter-start")).href;

function toldArgs({ folder, port, secrets, vars }: Told): string[] {
  return [
    ...["--env-file", secrets, "--persist-to", join(folder, "state"), "--port", String(port)],
    ...Object.entries(vars).flatMap(([name, value]) => ["--var", `${name}:${value}`]),
  ];
}
