import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import type { Account } from "../deploy/account.ts";
import { planOf } from "../deploy/plan.ts";
import { type Deployed, KEY, type Resources } from "../deploy/resources.ts";
import type { Project } from "../project.ts";
import { counted, oneLine } from "../terminal.ts";
import type { Finding } from "./finding.ts";

/** The maximum time that a new workers.dev address needs until it answers. */
const NEW_ADDRESS_MS = 60_000;
const PAUSE_MS = 2000;
/** If the clocks differ by this time or more, leases and tokens fail. */
const MOST_SKEW_MS = 30_000;
/** If the keeper's last run was longer ago than this, the keeper does not work, so that crashed instances are not restarted. */
const KEEPER_SECONDS = 90;

interface Options {
  url: string | undefined;
  /** True immediately after the first deployment, when DNS may not have the address yet. */
  isNew: boolean;
  stop: AbortSignal;
}

export async function remoteFindings(
  account: Account,
  project: Project,
  config: Deployed,
  wanted: Resources,
  { url: given, isNew, stop }: Options,
): Promise<{ url: string; findings: Finding[] }> {
  const url = (given ?? (await addressOf(account, config, wanted.worker))).replace(/\/+$/, "");
  const deploy = `npx millrace deploy${project.env === undefined ? "" : ` --env ${project.env}`}`;
  try {
    const plan = await planOf(account, project, wanted);
    const lacks = (what: string, names: readonly string[]): Finding[] =>
      names.length > 0 ? [{ code: "not_created", says: `The account has no ${what}: ${names.join(", ")}.`, line: deploy }] : [];
    const inCells = plan.cells.flatMap(({ migrations }, at) => migrations.map(({ name }) => `${name} in ${wanted.cells[at]?.name}`));
    const pending = [...plan.migrations.map(({ name }) => name), ...inCells];
    const missing = [
      ...lacks(
        "D1 database",
        [wanted.database, ...wanted.cells].flatMap(({ name }, at) => ([plan, ...plan.cells][at]?.database === undefined ? [name] : [])),
      ),
      ...lacks("bucket", plan.buckets),
      ...lacks("queue", plan.queues),
      ...lacks("Workflow", plan.workflows),
      ...(pending.length > 0
        ? [
            {
              code: "migrations_pending",
              says: `The deployed database lacks ${counted(pending.length, "migration")}: ${pending.join(", ")}.`,
              line: deploy,
            },
          ]
        : []),
    ];
    if (!plan.isUpdate)
      return { url, findings: [{ code: "not_deployed", says: `The account has no Worker "${wanted.worker}".`, line: deploy }, ...missing] };
    const set = plan.secrets.map((name) => ({
      code: "secret_missing",
      says: `The Worker "${wanted.worker}" has no secret ${name}.`,
      line: name === KEY ? deploy : `npx wrangler secret put ${name}`,
    }));
    const found = [
      ...missing,
      ...set,
      ...(await consumers(account, config, wanted, deploy)),
      ...(await crons(account, config, wanted, deploy)),
    ];
    return { url, findings: [...found, ...(await health(url, isNew, stop))] };
  } catch (error) {
    if (!(error instanceof Refusal) || stop.aborted) throw error;
    return { url, findings: [{ code: "refused", says: error.message }] };
  }
}

/** Finds the address of a deployed Worker, which is its custom domain or its workers.dev address. */
async function addressOf(account: Account, { routes = [], route, vars }: Deployed, worker: string): Promise<string> {
  const domain = [...routes, ...(route ? [route] : [])].find((one) => typeof one === "object" && one.custom_domain);
  if (typeof domain === "object") return `https://${domain.pattern}`;
  if (typeof vars?.PUBLIC_URL === "string" && vars.PUBLIC_URL !== "") return vars.PUBLIC_URL;
  const found = await account.find<{ subdomain: string }>("/workers/subdomain", "the account's subdomain");
  return `https://${worker}.${found?.subdomain ?? "your-subdomain"}.workers.dev`;
}

interface Consumed {
  queue_name: string;
  consumers?: { dead_letter_queue?: string }[];
}

async function consumers(account: Account, config: Deployed, { consumed }: Resources, line: string): Promise<Finding[]> {
  const queues = await account.list<Consumed>("/queues", "the queues");
  return (config.queues?.consumers ?? []).flatMap(({ queue, dead_letter_queue: letters }): Finding[] => {
    const found = queues.find(({ queue_name }) => queue_name === queue);
    if (!found || !consumed.includes(queue)) return [];
    const [consumer] = found.consumers ?? [];
    if (!consumer) return [{ code: "queue_without_consumer", says: `The account delivers the queue "${queue}" to no Worker.`, line }];
    if (letters === undefined || consumer.dead_letter_queue === letters) return [];
    return [{ code: "dead_letters_lost", says: `The account has no dead-letter queue "${letters}" for the queue "${queue}".`, line }];
  });
}

async function crons(account: Account, { triggers }: Deployed, { worker }: Resources, line: string): Promise<Finding[]> {
  if (!triggers?.crons?.length) return [];
  const found = await account.find<{ schedules?: unknown[] }>(`/workers/scripts/${worker}/schedules`, "the Worker's cron triggers");
  return found?.schedules?.length ? [] : [{ code: "cron_missing", says: `The deployed Worker "${worker}" has no cron trigger.`, line }];
}

interface Health {
  ok?: boolean;
  keeper_seconds?: number | null;
  detail?: string;
}

async function health(url: string, isNew: boolean, stop: AbortSignal): Promise<Finding[]> {
  const at = `${url}/healthz`;
  let says = "";
  for (const until = Date.now() + (isNew ? NEW_ADDRESS_MS : 0); ; await sleep(PAUSE_MS, undefined, { signal: stop })) {
    try {
      const response = await fetch(at, { signal: AbortSignal.any([stop, AbortSignal.timeout(15_000)]) });
      const health = (await response.json()) as Health;
      const skew = Math.abs(Date.now() - Date.parse(response.headers.get("date") ?? new Date().toUTCString()));
      if (health.ok) return [...keeper(at, health, isNew), ...clock(skew)];
      says = `${at} answers ${response.status}: ${oneLine(health.detail ?? "it does not say why")}`;
    } catch (error) {
      stop.throwIfAborted();
      says = `${at} does not answer: ${error instanceof Error ? oneLine(error.message) : "no reason was given"}.`;
    }
    if (Date.now() >= until) return [{ code: "unhealthy", says, line: `curl ${at}` }];
  }
}

function keeper(at: string, { keeper_seconds: ago }: Health, isNew: boolean): Finding[] {
  if (isNew || (typeof ago === "number" && ago <= KEEPER_SECONDS)) return [];
  const says = ago
    ? `The keeper made its last round ${ago} s ago (${at}).`
    : `The keeper had stopped, and the request to ${at} started it.`;
  return [{ code: "keeper_late", says: `${says} Its rounds must be at most 60 s apart.`, line: `curl ${at}` }];
}

function clock(skewMs: number): Finding[] {
  if (skewMs <= MOST_SKEW_MS) return [];
  const says = `The clock of this machine differs from the Worker's by ${Math.round(skewMs / 1000)} s. Set it by NTP.`;
  return [{ code: "clock", says, line: "timedatectl set-ntp true" }];
}
