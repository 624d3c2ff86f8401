import { Refusal } from "../command.ts";
import { DATABASE } from "../project.ts";
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
  database: { name: string; id: string | undefined };
  buckets: string[];
  queues: string[];
  consumed: string[];
  workflows: string[];
  /** Secrets that the configuration requires, and `MILLRACE_KEY`. */
  secrets: string[];
}

/** The secret from which upstream keys are derived. */
export const KEY = "MILLRACE_KEY";

/** The resources whose names a configuration contains. Errors: a `Refusal` that contains the wrong or missing line. */
export function resourcesOf(config: Deployed, worker: string, file: string): Resources {
  const { d1_databases = [], r2_buckets = [], queues: { producers = [], consumers = [] } = {}, workflows = [], exports = {} } = config;
  const bound = d1_databases.find(({ binding }) => binding === DATABASE);
  const line = `{ "binding": "${DATABASE}", "database_name": "${worker}" }`;
  if (!bound) throw new Refusal(`${file} binds no database as ${DATABASE}. Add this line to "d1_databases": ${line}`);
  const { database_name: name, database_id: id } = bound;
  if (isPlaceholder(id))
    throw new Refusal(
      `${file}: the database_id of ${DATABASE} is the placeholder ${id}. Remove it: the deployment finds the database by its name. ` +
        `The line is then: ${JSON.stringify({ binding: DATABASE, database_name: name ?? worker })}`,
    );
  if (!name) throw new Refusal(`${file}: the database ${DATABASE} has no name. Its line: ${line}`);
  const consumed = consumers.map(({ queue }) => queue);
  const letters = consumers.flatMap(({ dead_letter_queue: queue }) => (queue === undefined ? [] : [queue]));
  return {
    worker,
    database: { name, id },
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

export function isPlaceholder(id: string | undefined): id is string {
  return id !== undefined && (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id) || /^[0-]+$/.test(id));
}
