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
import { wranglerEnv } from "./wrangler.ts";

/** A local engine: `wrangler dev` and the two workerds it runs, or `serve.ts` and its one. */
export interface Engine {
  url: string;
  token: string;
  /** Its first process's, which is also the id of the process group in which all of the engine lives. */
  pid: number;
  /** Where it and the Worker write. */
  logFile: string;
  /** Where in that file this engine's own lines begin, in bytes. */
  logFrom: number;
  /** Resolves when its first process has ended, by itself or not, with its exit code or the signal that ended it. */
  ended: Promise<unknown[]>;
  /** The ids of the workerd that runs the Worker and holds all state. Another is started when it dies. */
  runtime(): number[];
  /** The id of the workerd that owns the public port: without it nothing answers any more, whatever else lives. */
  front(): number[];
  /** Waits until the Worker answers: false when it did not in time, or its first process has ended. */
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
  cwd: string;
  /** The program of its first process, and what that is told: of `devArgs` or `serveArgs`. */
  args: string[];
  lock: FolderLock;
}

/**
 * Runs an engine in a process group of its own, so that Ctrl-C in the terminal reaches only us and we end it in good order.
 *
 * What happens when its processes die (seen): `serve.ts` starts its workerd again on the same state and port. Wrangler 4.156 runs two, a
 * proxy that owns the public port and the one that runs the Worker. `kill -9` of the latter: wrangler starts another on the same state,
 * which answers 0.4 to 0.8 s later. Of the proxy: the port is closed for 0.4 to 2 s, then a new one listens and never answers; only a new
 * wrangler helps. Of the first process: its workerds live on, answer, and hold the port and the state, so whoever kills it must kill its
 * whole group. Asked to end (TERM or INT), it is gone after 0.05 s and the last of its group after 0.1 to 0.2 s: the engine has stopped
 * when its group is gone, not when its first process is.
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
  // The last resort of a process that ends without stop().
  process.once("exit", killAll);

  const workerds = () => groupOf(pid).filter(({ command }) => /workerd[^ ]* serve/.test(command));
  /** The one that was told the public port: wrangler's proxy, or all there is. */
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

/** `wrangler dev` of a Worker that is loaded anew when it changes. Loopback only, no questions, no debugger's port. */
export function devArgs(wrangler: string, told: Told, { script, config }: { script: string; config: string }): string[] {
  const alone = ["--ip", "127.0.0.1", "--inspector-port", "0", "--show-interactive-dev-session=false"];
  return ["--import", LIGHTER_START, wrangler, "dev", script, "--config", config, ...alone, ...toldArgs(told)];
}

/** The runtime alone, of a bundle as it is in its folder. */
export function serveArgs(told: Told, bundle: string): string[] {
  return [SERVE, "--bundle", bundle, ...toldArgs(told)];
}

const SERVE = besideOf(import.meta.filename, "serve");
/** As a URL: `#` and `?` in a folder's name would end the path of a module. */
const LIGHTER_START = pathToFileURL(besideOf(import.meta.filename, "lighter-start")).href;

function toldArgs({ folder, port, secrets, vars }: Told): string[] {
  return [
    ...["--env-file", secrets, "--persist-to", join(folder, "state"), "--port", String(port)],
    ...Object.entries(vars).flatMap(([name, value]) => ["--var", `${name}:${value}`]),
  ];
}
