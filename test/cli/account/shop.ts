import { execFile, spawn } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../../../packages/millrace/cli/local/wrangler.ts";
import { emptyFolder } from "../folder.ts";
import type { Account, Asked, Refused } from "./account.ts";

const LAUNCH = join(ROOT, "packages/millrace/cli/launch.js");

/** A minimal Worker with the engine's classes: the account never runs it. */
const WORKER = `import { DurableObject, WorkflowEntrypoint } from "cloudflare:workers";
export class Recorder extends DurableObject {}
export class Keeper extends DurableObject {}
export class Runs extends WorkflowEntrypoint { async run() {} }
export default { fetch: () => new Response("ok"), queue() {}, scheduled() {} };`;

const consumer = (queue: string) => ({ queue, max_batch_size: 10, max_batch_timeout: 0, max_retries: 3, max_concurrency: 5 });

/** The resources of an environment of the shop. `prefix` begins their names. */
export const resources = (prefix = "") => ({
  d1_databases: [{ binding: "DB", database_name: `${prefix}shop` }],
  r2_buckets: [{ binding: "PAYLOADS", bucket_name: `${prefix}shop-payloads` }],
  secrets: { required: ["MILLRACE_KEY"] },
  queues: {
    producers: [{ binding: "MILLRACE_QUEUE", queue: `${prefix}millrace` }],
    consumers: [{ ...consumer(`${prefix}millrace`), dead_letter_queue: `${prefix}millrace-dlq` }, consumer(`${prefix}millrace-dlq`)],
  },
});

/** The complete configuration of a shop. */
export const configuration = () => ({
  name: "shop",
  main: "worker.js",
  compatibility_date: "2026-10-01",
  compatibility_flags: ["nodejs_compat", "global_fetch_strictly_public", "queue_consumer_no_wait_for_wait_until"],
  observability: { enabled: true },
  limits: { subrequests: 10_000_000, cpu_ms: 300_000 },
  triggers: { crons: ["* * * * *"] },
  exports: {
    Recorder: { type: "durable-object", storage: "sqlite" },
    Keeper: { type: "durable-object", storage: "sqlite" },
    Runs: { type: "workflow", name: "shop-runs" },
  },
  ...resources(),
});

/** A folder with a shop project. */
export function shop(config: object = configuration()): string {
  const folder = emptyFolder();
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  writeFileSync(join(folder, "worker.js"), WORKER);
  writeFileSync(join(folder, "wrangler.jsonc"), JSON.stringify(config));
  mkdirSync(join(folder, "migrations"));
  writeFileSync(join(folder, "migrations/0001_orders.sql"), "CREATE TABLE orders (id TEXT); CREATE INDEX orders_by_id ON orders (id);");
  return folder;
}

interface Ran {
  code: number | null;
  /** Both outputs. */
  said: string;
}

/** Runs a Millrace command in a folder, against an account. */
export function millrace(
  folder: string,
  account: Account,
  args: readonly string[],
  env: Record<string, string | undefined> = account.env,
): Promise<Ran> {
  const options = { cwd: folder, env: { ...process.env, ...env, NO_COLOR: "1" } };
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [LAUNCH, ...args], options, (_, stdout, stderr) => {
      resolve({ code: child.exitCode, said: `${stdout}${stderr}` });
    });
  });
}

/** Runs a command, and kills it with all its children once the account has executed a request. */
export async function killedAt(folder: string, account: Account, args: readonly string[], request: RegExp): Promise<boolean> {
  const options = { cwd: folder, env: { ...process.env, ...account.env }, detached: true, stdio: "ignore" } as const;
  const child = spawn(process.execPath, [LAUNCH, ...args], options);
  let killed = false;
  account.before = ({ method, path }) => {
    if (killed || !request.test(`${method} ${path}`)) return;
    killed = true;
    process.kill(-(child.pid ?? 0), "SIGKILL");
  };
  await new Promise((resolve) => child.on("close", resolve));
  account.before = () => undefined;
  return killed;
}

/** The arguments of a deployment of the shop. */
export const deploy = (account: Account, ...more: string[]) => ["deploy", "--url", `${account.url}/worker/shop`, ...more];

/** For `refuse` of an account: refuses requests, at most this many times. */
export const refusing =
  (which: RegExp, refused: Refused, times = Number.POSITIVE_INFINITY) =>
  ({ method, path }: Asked) =>
    which.test(`${method} ${path}`) && times-- > 0 ? refused : undefined;
export const limited = { status: 429, code: 971, message: "Please wait and consider throttling your request speed", retryAfter: 0 };
