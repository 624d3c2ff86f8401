import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { Refusal } from "../command.ts";
import { closedFolder } from "../local/engine-process.ts";
import { lastError, wranglerEnv } from "../local/wrangler.ts";
import { DATABASE, type Project } from "../project.ts";
import type { Config } from "../wiring/config.ts";

/** The fields of a configuration that contain names of resources in the account. */
export interface Deployed extends Config {
  account_id?: string;
  triggers?: { crons?: string[] };
  limits?: { subrequests?: number; cpu_ms?: number };
  compatibility_date?: string;
  compatibility_flags?: string[];
  routes?: (string | { pattern: string; custom_domain?: boolean })[];
  route?: string | { pattern: string; custom_domain?: boolean };
  workers_dev?: boolean;
}

export interface Resources {
  worker: string;
  database: Database;
  /** The databases of the cells after the first. */
  cells: Database[];
  buckets: string[];
  queues: string[];
  consumed: string[];
  workflows: string[];
  /** Secrets that the configuration requires, and `MILLRACE_KEY`. */
  secrets: string[];
}

/** A database of the configuration, with its binding. */
export interface Database {
  binding: string;
  name: string;
  id: string | undefined;
}

/** The secret from which upstream keys are derived. */
export const KEY = "MILLRACE_KEY";

/** The resources whose names a configuration contains. Errors: a `Refusal` that contains the wrong or missing line. */
export function resourcesOf(config: Deployed, worker: string, file: string): Resources {
  const { r2_buckets = [], queues: { producers = [], consumers = [] } = {}, workflows = [], exports = {} } = config;
  const others = Array.from({ length: Math.max(0, Number(config.vars?.CELLS ?? 1) - 1) || 0 }, (_, index) => index + 2);
  const consumed = consumers.map(({ queue }) => queue);
  const letters = consumers.flatMap(({ dead_letter_queue: queue }) => (queue === undefined ? [] : [queue]));
  return {
    worker,
    database: databaseIn(config, { binding: DATABASE, usual: worker, file }),
    cells: others.map((cell) => databaseIn(config, { binding: `${DATABASE}_${cell}`, usual: `${worker}-${cell}`, file })),
    buckets: r2_buckets.map(({ binding, bucket_name }) => bucket_name ?? `${worker}-${binding.toLowerCase().replaceAll("_", "-")}`),
    queues: [...new Set([...producers.map(({ queue }) => queue), ...consumed, ...letters])],
    consumed,
    workflows: [
      ...workflows.filter(({ script_name = worker }) => script_name === worker).map((one) => one.name),
      ...Object.entries(exports).flatMap(([className, { type, name: own }]) => (type === "workflow" ? [own ?? className] : [])),
    ],
    secrets: [...new Set([KEY, ...(config.secrets?.required ?? [])])],
  };
}

function databaseIn({ d1_databases = [] }: Deployed, { binding, usual, file }: { binding: string; usual: string; file: string }): Database {
  const bound = d1_databases.find((one) => one.binding === binding);
  const line = `{ "binding": "${binding}", "database_name": "${usual}" }`;
  if (!bound) throw new Refusal(`${file} binds no database as ${binding}. Add this line to "d1_databases": ${line}`);
  const { database_name: name, database_id: id } = bound;
  if (isPlaceholder(id))
    throw new Refusal(
      `${file}: the database_id of ${binding} is the placeholder ${id}. Remove it: the deployment finds the database by its name. ` +
        `The line is then: ${JSON.stringify({ binding, database_name: name ?? usual })}`,
    );
  if (!name) throw new Refusal(`${file}: the database ${binding} has no name. Its line: ${line}`);
  return { binding, name, id };
}

export function isPlaceholder(id: string | undefined): id is string {
  return id !== undefined && (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id) || /^[0-]+$/.test(id));
}

export interface Run {
  account?: string | undefined;
  /** The path of a configuration file that wrangler uses instead of the project's configuration. */
  config?: string;
  /** A file descriptor that wrangler reads as /dev/stdin. */
  input?: number | undefined;
  stop?: AbortSignal;
}

/**
 * Runs the project's wrangler with the project's configuration and environment, and returns its output. Errors: a `Refusal` that ends with
 * the error of wrangler.
 */
export async function runProjectWrangler(
  project: Project,
  doing: string,
  args: readonly string[],
  { account, config, input, stop }: Run = {},
): Promise<string> {
  const which = ["--config", config ?? project.config, ...(project.env ? ["--env", project.env] : [])];
  closedFolder(project.stateFolder);
  const env = { ...wranglerEnv(project.stateFolder), ...(account && { CLOUDFLARE_ACCOUNT_ID: account }) };
  const child: ChildProcess = spawn(process.execPath, [project.wrangler, ...args, ...which], {
    ...{ cwd: project.root, env, stdio: [input ?? "ignore", "pipe", "pipe"] },
    ...(stop && { signal: stop }),
  });
  const read = (stream: Readable | null) => (stream ? text(stream) : "");
  const [[code], out, err] = await Promise.all([once(child, "close"), read(child.stdout), read(child.stderr)]);
  if (code === 0) return out;
  throw new Refusal(`Could not ${doing}: ${errorOf(`${out}\n${err}`)}`);
}

/** The error of wrangler, with Cloudflare's reason, which wrangler prints on a line after the error. */
function errorOf(output: string): string {
  const error = lastError(output);
  const reason = /^\s*(\S.*\[code: \d+\])\s*$/m.exec(output)?.[1];
  return reason === undefined || error.includes(reason) ? error : `${error} ${reason}`;
}
