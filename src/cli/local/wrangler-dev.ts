import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync } from "node:fs";
import { join } from "node:path";
import type { FolderLock } from "./folder-lock.ts";
import { becomesWell } from "./health.ts";
import { endGroup, groupOf, send } from "./processes.ts";
import { openLog, sizeOf } from "./worker-log.ts";
import { ROOT, WRANGLER, wranglerEnv } from "./wrangler.ts";

/** A local engine: `wrangler dev` and the two workerds it runs. */
export interface Engine {
  url: string;
  token: string;
  /** Wrangler's, which is also the id of the process group in which all of the engine lives. */
  pid: number;
  /** Where wrangler and the Worker write. */
  logFile: string;
  /** Where in that file this engine's own lines begin, in bytes. */
  logFrom: number;
  /** Resolves when wrangler has ended, by itself or not, with its exit code or the signal that ended it. */
  ended: Promise<unknown[]>;
  /** The ids of the workerd that runs the Worker and holds all state. Wrangler starts another when it dies. */
  runtime(): number[];
  /** The id of the workerd that owns the public port: without it nothing answers any more, whatever else lives. */
  front(): number[];
  /** Waits until the Worker answers: false when it did not in time, or wrangler has ended. */
  answers(withinMs: number): Promise<boolean>;
  stop(): Promise<void>;
  /** Kills without warning. Answers the ids of what died. */
  kill9(what: "runtime" | "everything"): Promise<number[]>;
}

/** The log's name in the engine's folder. */
export const LOG_NAME = "worker.log";

interface Running {
  url: string;
  token: string;
  folder: string;
  args: string[];
  lock: FolderLock;
  signal: AbortSignal | undefined;
}

/**
 * Runs `wrangler dev` in a process group of its own, so that Ctrl-C in the terminal reaches only us and we end it in good order.
 *
 * What wrangler 4.156 does when its processes die (seen): it runs two workerds, a proxy that owns the public port and the one that
 * runs the Worker. `kill -9` of the latter: wrangler starts another on the same state, which answers 0.4 to 0.8 s later. Of the
 * proxy: the port is closed for 0.4 to 2 s, then a new one listens and never answers; only a new wrangler helps. Of wrangler: both workerds
 * live on, answer, and hold the port and the state, so whoever kills it must kill its whole group. Asked to end (TERM or INT), wrangler is
 * gone after 0.05 s and the last of its group after 0.1 to 0.2 s: the engine has stopped when its group is gone, not when wrangler is.
 */
export function runDev({ url, token, folder, args, lock, signal }: Running): Engine {
  const logFile = join(folder, LOG_NAME);
  const log = openLog(logFile);
  const logFrom = sizeOf(logFile);
  const wrangler = spawn(process.execPath, [WRANGLER, "dev", ...args], {
    cwd: ROOT,
    env: wranglerEnv(folder),
    stdio: ["ignore", log, log],
    detached: true,
  });
  closeSync(log);
  const gone = new AbortController();
  const ended = once(wrangler, "exit").finally(() => gone.abort());
  const pid = wrangler.pid ?? 0;
  const killAll = () => send("SIGKILL", groupOf(pid));
  lock.holds(pid);
  // The last resort of a process that ends without stop().
  process.once("exit", killAll);

  /** The proxy is the one that was told the public port. */
  const workerds = () => groupOf(pid).filter(({ command }) => /workerd[^ ]* serve/.test(command));
  const isProxy = ({ command }: { command: string }) => command.includes(`entry=127.0.0.1:${new URL(url).port} `);
  const runtime = () => workerds().filter((one) => !isProxy(one));
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
    front: () => workerds().flatMap((one) => (isProxy(one) ? [one.pid] : [])),
    answers: (withinMs) => becomesWell(url, AbortSignal.any([gone.signal, AbortSignal.timeout(withinMs), ...(signal ? [signal] : [])])),
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

/** Loopback only, no questions, no debugger's port. */
export function devArgs(options: {
  folder: string;
  port: number;
  secrets: string;
  config: string;
  vars: Record<string, string>;
}): string[] {
  return [
    ...["--config", options.config, "--env-file", options.secrets, "--persist-to", join(options.folder, "state")],
    ...["--ip", "127.0.0.1", "--port", String(options.port), "--inspector-port", "0", "--show-interactive-dev-session=false"],
    ...Object.entries(options.vars).flatMap(([name, value]) => ["--var", `${name}:${value}`]),
  ];
}
