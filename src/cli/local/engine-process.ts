import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Refusal } from "../command.ts";
import { bundled } from "./bundle.ts";
import { prepareDatabase } from "./database.ts";
import { lockFolder } from "./folder-lock.ts";
import { requireFree } from "./ports.ts";
import { localToken } from "./token.ts";
import { lastError, ROOT, shown } from "./wrangler.ts";
import { devArgs, type Engine, LOG_NAME, runDev } from "./wrangler-dev.ts";

export type { Engine };

export interface EngineOptions {
  /** Keeps all of this engine: `state`, `token`, `worker.log`. A later start on the same folder goes on where this one ended. */
  folder: string;
  port: number;
  /** The file with the secrets, in the format of `.dev.vars`. */
  secrets: string;
  vars?: Record<string, string>;
  /** Default: `wrangler.jsonc` of this checkout. It binds its database, with this checkout's migrations, as `DB`, and its Worker answers `GET /healthz`. */
  config?: string;
  /** True loads the Worker anew when a source changes; false bundles it once. Default: false. */
  watch?: boolean;
  /** True forgets what an earlier engine left in the folder. Default: false. */
  fresh?: boolean;
  /** Gives the start up. */
  signal?: AbortSignal;
}

/** Longest that a start may take before it counts as failed. */
const START_MS = 60_000;

/** Starts an engine and waits until it answers. Errors: a `Refusal`, whose sentence says what to do. */
export async function startEngine(options: EngineOptions): Promise<Engine> {
  const { folder, port, secrets, vars, config = join(ROOT, "wrangler.jsonc"), watch = false, fresh = false, signal } = options;
  mkdirSync(folder, { recursive: true });
  const url = `http://localhost:${port}`;
  const lock = await lockFolder(folder, url);
  try {
    await requireFree(port);
    if (fresh) for (const left of ["state", "token", LOG_NAME]) rmSync(join(folder, left), { recursive: true, force: true });
    const token = localToken(join(folder, "token"));
    const [bundle] = await Promise.all([watch ? [] : bundled(config), prepareDatabase(folder, config, token)]);
    signal?.throwIfAborted();
    const args = [...bundle, ...devArgs({ folder, port, secrets, config, vars: { PUBLIC_URL: url, ...vars } })];
    const engine = runDev({ url, token, folder, args, lock, signal });
    if (await engine.answers(START_MS)) return engine;
    await engine.stop();
    signal?.throwIfAborted();
    throw new Refusal(`The engine did not start: ${lastError(readFileSync(engine.logFile, "utf8"))} More is in ${shown(engine.logFile)}.`);
  } catch (error) {
    lock.release();
    throw error;
  }
}
