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
  /** The folder of the engine's state: `state`, `token` and `worker.log`. A later start continues with this state. */
  folder: string;
  port: number;
  /** The command that error messages suggest, without the option `--port`. Default: `npx millrace dev`. */
  typed?: string;
  secrets: string;
  vars?: Record<string, string>;
  /** Default: the app of this repository. */
  project?: Project;
  /**
   * Default: the configuration of `project`. The configuration must bind the database as `DB`, and its Worker must answer `GET /healthz`.
   */
  config?: string;
  /**
   * A bundle and its configuration. The engine reloads if the bundle or its configuration changes. Default: a bundle of the sources of
   * `config`, which never changes.
   */
  worker?: { script: string; config: string };
  /** The tenant of the engine's token. Default: the tenant of the last start, or acme. */
  tenant?: string | undefined;
  /** If true, the existing state is deleted. Default: false. */
  fresh?: boolean;
  /** Timeout of the start. Default: 60 s. */
  startWithinMs?: number;
  signal?: AbortSignal;
}

const START_MS = 60_000;

/** The error if the runtime ended during its start, or rejected the Worker. */
export class NotStarted extends Refusal {
  /** True if the Worker's own code caused the error, so that the same code would fail again. */
  readonly byWorker: boolean;

  constructor(message: string, byWorker: boolean) {
    super(message);
    this.byWorker = byWorker;
  }
}

/** Starts an engine, and waits until it answers. Errors: `NotStarted` if the runtime does not start, otherwise a `Refusal`. */
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
    // The environment is not passed, because the configuration of a bundle has only one environment.
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

/** Resolves with false when the signal aborts. The signal has no effect on an engine that has already started. */
function isAborted(signal: AbortSignal | undefined): Promise<false> {
  return new Promise((resolve) => {
    if (signal?.aborted) resolve(false);
    signal?.addEventListener("abort", () => resolve(false), { once: true });
  });
}

function whyNot(ended: unknown[] | undefined, withinMs: number, log: string): string {
  const [code, signal] = ended ?? [];
  const what = ended ? `it ended by itself (${signal ?? `exit code ${code}`}).` : `it did not answer within ${withinMs / 1000} s.`;
  const error = errorIn(log);
  return error === undefined ? what : `${what} The last error in its log: ${error}`;
}

function readLog(file: string): Buffer {
  return existsSync(file) ? readFileSync(file) : Buffer.alloc(0);
}

/**
 * Resolves with the error that the Worker threw while the runtime loaded the Worker. After such an error, wrangler does not end and never
 * answers.
 */
function untilRefused(logFile: string): { line: Promise<string>; over: () => void } {
  const { promise, resolve } = Promise.withResolvers<string>();
  const over = followLog(logFile, (said) => {
    if (isLoadingError(said)) resolve(lastError(said));
  });
  return { line: promise, over };
}

/** Creates a folder that only its owner can access, because the folder contains payloads, hashes of tokens and logs. */
export function closedFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  chmodSync(folder, 0o700);
}
