import { spawn } from "node:child_process";
import { mkdirSync, openSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import { type FolderLock, lockFolder } from "./folder-lock.ts";
import { requireFree } from "./ports.ts";
import { endGroup, groupOf, type Process, send } from "./processes.ts";
import { insertToken, localToken } from "./token.ts";
import { lastError, ROOT, runWrangler, shown, WRANGLER, wranglerEnv } from "./wrangler.ts";

export interface EngineOptions {
  /** Keeps everything of this engine: its `state`, `token`, `worker.log`. A later start on the same folder goes on where this one ended. */
  folder: string;
  port: number;
  /** The file with the secrets, in the format of `.dev.vars`. */
  secrets: string;
  vars?: Record<string, string>;
  /** Default: `wrangler.jsonc` of this checkout. Its database is bound as `DB`. */
  config?: string;
  /** True loads the Worker anew when a source changes; false bundles it once. Default: false. */
  watch?: boolean;
}

/** A local engine: `wrangler dev` and the two workerds it runs. */
export interface Engine {
  url: string;
  token: string;
  /** Wrangler's, which is also the id of the process group all of the engine lives in. */
  pid: number;
  /** Where wrangler and the Worker write. */
  logFile: string;
  /** Resolves when wrangler ended, by itself or not. */
  ended: Promise<void>;
  /** The ids of the workerd that runs the Worker and holds all state. Wrangler gives it a new one when it dies. */
  runtime(): number[];
  /** Waits until the Worker answers; `false` when it did not in time, or wrangler has ended. */
  answers(withinMs?: number): Promise<boolean>;
  stop(): Promise<void>;
  /** Kills without warning. Answers the ids of what died. */
  kill9(what: "runtime" | "everything"): number[];
}

const START_MS = 60_000;
const ASK_EVERY_MS = 50;

/**
 * Starts an engine and waits until it answers. Errors: a `Refusal` whose sentence says what to do.
 *
 * What wrangler 4.156 does when its processes die (seen): it runs two workerds, a proxy that owns the public port and the one that
 * runs the Worker. `kill -9` of the latter: wrangler starts another on the same state, which answers 0.4 to 0.8 s later. Of the proxy: a
 * new one comes, listens, and never answers again; only a new wrangler helps. Of wrangler: both workerds live on as orphans and
 * hold the port and the state, so whoever kills it must kill all its group. Asked to end (TERM or INT), wrangler exits within
 * 0.1 s and its workerds up to 1 s after it: the engine has stopped when its whole group is gone, not when wrangler is.
 */
export async function startEngine({
  folder,
  port,
  secrets,
  vars = {},
  config = join(ROOT, "wrangler.jsonc"),
  watch = false,
}: EngineOptions): Promise<Engine> {
  mkdirSync(folder, { recursive: true });
  const url = `http://localhost:${port}`;
  const lock = await lockFolder(folder, url);
  try {
    await requireFree(port);
    const token = localToken(join(folder, "token"));
    const [script] = await Promise.all([watch ? [] : bundle(folder, config), prepareDatabase(folder, config, token)]);
    const engine = run({
      url,
      token,
      folder,
      lock,
      args: [...script, ...devArgs({ folder, port, secrets, config, vars: { PUBLIC_URL: url, ...vars } })],
    });
    if (await engine.answers(START_MS)) return engine;
    await engine.stop();
    throw new Refusal(`The engine did not start: ${lastError(readFileSync(engine.logFile, "utf8"))} More is in ${shown(engine.logFile)}.`);
  } catch (error) {
    lock.release();
    throw error;
  }
}
