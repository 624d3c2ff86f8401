import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Refusal } from "../command.ts";
import { checkout, type Project } from "../project.ts";
import { bundled } from "./bundle.ts";
import { prepareDatabase } from "./database.ts";
import { lockFolder } from "./folder-lock.ts";
import { requireFree } from "./ports.ts";
import { localToken } from "./token.ts";
import { followLog } from "./worker-log.ts";
import { errorIn, isLoadingError, lastError, shown } from "./wrangler.ts";
import { devArgs, type Engine, LOG_NAME, runDev, serveArgs } from "./wrangler-dev.ts";

export type { Engine };

export interface EngineOptions {
  /** Keeps all of this engine: `state`, `token`, `worker.log`. A later start on the same folder goes on where this one ended. */
  folder: string;
  port: number;
  /** The command that errors about the port name before `--port`. Default: `npx millrace dev`. */
  typed?: string;
  /** The file with the secrets, in the format of `.dev.vars`. */
  secrets: string;
  vars?: Record<string, string>;
  /** Default: the app of this checkout. */
  project?: Project;
  /** Default: that of `project`. It binds its database, with the project's migrations, as `DB`, and its Worker answers `GET /healthz`. */
  config?: string;
  /**
   * The Worker as somebody has bundled it, and its configuration: it is loaded anew whenever that file changes. Default: the sources of
   * `config`, bundled once.
   */
  worker?: { script: string; config: string };
  /** The tenant of the engine's token. Default: the tenant of the last start, or else acme. */
  tenant?: string | undefined;
  /** True forgets what an earlier engine left in the folder. Default: false. */
  fresh?: boolean;
  /** Longest that the runtime may take until it answers. Default: a minute. */
  startWithinMs?: number;
  /** Gives the start up. */
  signal?: AbortSignal;
}

const START_MS = 60_000;

/** The runtime ended as it started, or refused the Worker. */
export class NotStarted extends Refusal {
  /** True when the Worker's own code was the reason: the same code would fail again. */
  readonly byWorker: boolean;

  constructor(message: string, byWorker: boolean) {
    super(message);
    this.byWorker = byWorker;
  }
}

/**
 * Starts an engine and waits until it answers. Errors: a `Refusal`, whose sentence says what to do; `NotStarted` when the runtime did not
 * come up.
 */
export async function startEngine(options: EngineOptions): Promise<Engine> {
  const {
    folder,
    port,
    secrets,
    typed,
    vars,
    project = checkout(),
    config = project.config,
    worker,
    tenant,
    fresh = false,
    startWithinMs = START_MS,
    signal,
  } = options;
  closedFolder(folder);
  const url = `http://localhost:${port}`;
  const lock = await lockFolder(folder, url);
  try {
    await requireFree(port, typed);
    if (fresh) for (const left of ["state", "token", LOG_NAME]) rmSync(join(folder, left), { recursive: true, force: true });
    const token = localToken(join(folder, "token"));
    // The configuration that runs is that of its environment alone.
    const databaseOf = worker ? { config: worker.config, migrations: project.migrations } : { ...project, config };
    const [bundle] = await Promise.all([worker ? "" : bundled(config), prepareDatabase(folder, databaseOf, token, tenant)]);
    signal?.throwIfAborted();
    const how = { folder, port, secrets, vars: { PUBLIC_URL: url, ...vars } };
    const run = worker ? devArgs(project.wrangler, how, worker) : serveArgs(how, bundle);
    const before = readLog(join(folder, LOG_NAME)).length;
    const engine = runDev({ url, token, folder, cwd: project.root, args: run, lock });
    const refused = untilRefused(engine.logFile);
    const came = await Promise.race([engine.answers(startWithinMs), refused.line, isAborted(signal)]).finally(refused.over);
    if (came === true) return engine;
    const ended = await Promise.race([engine.ended, undefined]);
    await engine.stop();
    signal?.throwIfAborted();
    const log = readLog(engine.logFile);
    const why = came || whyNot(ended, startWithinMs, log.subarray(log.length < before ? 0 : before).toString("utf8"));
    throw new NotStarted(`The engine did not start: ${why} More is in ${shown(engine.logFile)}.`, came !== false);
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** False once the signal aborts. It ends a start, and not the engine that came of it. */
function isAborted(signal: AbortSignal | undefined): Promise<false> {
  return new Promise((resolve) => {
    if (signal?.aborted) resolve(false);
    signal?.addEventListener("abort", () => resolve(false), { once: true });
  });
}

/** What became of a start, and what was called an error in its part of the log: its other lines are no reasons. */
function whyNot(ended: unknown[] | undefined, withinMs: number, log: string): string {
  const [code, signal] = ended ?? [];
  const what = ended ? `it ended by itself (${signal ?? `exit code ${code}`}).` : `it did not answer within ${withinMs / 1000} s.`;
  const error = errorIn(log);
  return error === undefined ? what : `${what} The last error in its log: ${error}`;
}

function readLog(file: string): Buffer {
  return existsSync(file) ? readFileSync(file) : Buffer.alloc(0);
}

/** Resolves with what the Worker threw as the runtime loaded it: wrangler would live on without it, and never answer. */
function untilRefused(logFile: string): { line: Promise<string>; over: () => void } {
  const { promise, resolve } = Promise.withResolvers<string>();
  const over = followLog(logFile, (said) => {
    if (isLoadingError(said)) resolve(lastError(said));
  });
  return { line: promise, over };
}

/** A folder that nobody but its owner looks into: it holds payloads, hashes of tokens and logs. */
export function closedFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  chmodSync(folder, 0o700);
}
