import { anyInstance } from "../../src/store/instances/look.ts";
import { Refusal } from "../command.ts";
import { requireNoTransactions } from "../local/database.ts";
import type { Migration, Project } from "../project.ts";
import { counted } from "../terminal.ts";
import type { Account } from "./account.ts";
import { assertOwner, remoteDatabase } from "./migrations.ts";
import { type Database, KEY, type Resources } from "./resources.ts";

/** The plan for one database. */
export interface DatabasePlan {
  /** The id of the database. Undefined if the database does not exist yet. */
  database: string | undefined;
  migrations: Migration[];
  /** The Worker that uses the database. Undefined before the first deployment. */
  owner: string | undefined;
}

export interface Plan extends DatabasePlan {
  /** The plans for the databases of the cells after the first. */
  cells: DatabasePlan[];
  buckets: string[];
  queues: string[];
  workflows: string[];
  isUpdate: boolean;
  /** Required secrets that the Worker does not have. */
  secrets: string[];
}

interface Queue {
  queue_name: string;
  consumers?: { script?: string; script_name?: string; service?: string; type?: string }[];
}

interface Given {
  /** True if the caller passes the secret key that the existing instances use. */
  hasKey?: boolean;
  /** True if this deployment may use a database that another Worker uses. */
  takesDatabase?: boolean;
}

/**
 * Compares the account with a deployment. Errors: a `Refusal` if a name or the database belongs to another Worker, or if existing instances
 * would get a new key.
 */
export async function planOf(account: Account, project: Project, wanted: Resources, given: Given = {}): Promise<Plan> {
  const [{ database, migrations, owner }, queues, buckets, secrets, workflows] = await Promise.all([
    databasePlan(account, project, wanted, wanted.database, given),
    account.list<Queue>("/queues", "the queues"),
    Promise.all(wanted.buckets.map(async (name) => ({ name, found: await account.find(`/r2/buckets/${name}`, `the bucket "${name}"`) }))),
    secretsOf(account, wanted),
    Promise.all(
      wanted.workflows.map(async (name) => {
        return { name, found: await account.find<{ script_name?: string }>(`/workflows/${name}`, `the Workflow "${name}"`) };
      }),
    ),
  ]);
  for (const { name, found } of workflows) assertOurs("Workflow", name, found?.script_name, wanted.worker);
  for (const { queue_name, consumers = [] } of queues)
    if (wanted.consumed.includes(queue_name))
      for (const { script, script_name, service } of consumers)
        assertOurs("queue", queue_name, script ?? script_name ?? service, wanted.worker);
  const set = secrets ?? [];
  const cells: DatabasePlan[] = [];
  for (const cell of wanted.cells) cells.push(await databasePlan(account, project, wanted, cell, given));
  if (database !== undefined && !set.includes(KEY) && !given.hasKey) await assertNoInstances(account, database, wanted);
  return {
    database,
    migrations,
    owner,
    cells,
    buckets: buckets.filter(({ found }) => !found).map(({ name }) => name),
    queues: wanted.queues.filter((name) => !queues.some(({ queue_name }) => queue_name === name)),
    workflows: workflows.filter(({ found }) => !found).map(({ name }) => name),
    isUpdate: secrets !== undefined,
    secrets: wanted.secrets.filter((name) => !set.includes(name)),
  };
}

/** The names of the Worker's secrets. Undefined if the account does not have the Worker. */
export async function secretsOf(account: Account, { worker }: Resources): Promise<string[] | undefined> {
  const found = await account.find<{ name: string }[]>(`/workers/scripts/${worker}/secrets`, "the names of the Worker's secrets");
  return found?.map(({ name }) => name);
}

async function databasePlan(
  account: Account,
  project: Project,
  { worker }: Resources,
  wanted: Database,
  { takesDatabase }: Given,
): Promise<DatabasePlan> {
  const database = await databaseOf(account, wanted);
  const { migrations, owner } = await remoteDatabase(account, project, database);
  requireNoTransactions(migrations);
  if (!takesDatabase) assertOwner(wanted.name, owner, worker);
  return { database, migrations, owner };
}

export async function databaseOf(account: Account, { name, id }: Database): Promise<string | undefined> {
  if (id === undefined) {
    const found = await account.list<{ uuid: string; name: string }>(`/d1/database?name=${encodeURIComponent(name)}`, "the D1 databases");
    return found.find((one) => one.name === name)?.uuid;
  }
  const found = await account.find<{ uuid: string }>(`/d1/database/${id}`, `the database "${name}"`);
  if (found) return found.uuid;
  throw new Refusal(
    `The account ${account.id} has no database with the database_id ${id}. Remove database_id from the configuration to have "${name}" created, or log in to the right account.`,
  );
}

/** Upstream keys are derived from the secret, so that a new secret would repeat completed effects. */
async function assertNoInstances(account: Account, database: string, { worker }: Resources): Promise<void> {
  const rows = await account.query(database, anyInstance.text).catch((error: unknown) => {
    if (error instanceof Refusal && error.message.includes("no such table")) return [];
    throw error;
  });
  if (rows.length === 0) return;
  throw new Refusal(
    `The database has instances, but the Worker "${worker}" has no ${KEY}. A new key would repeat effects of open instances. Write the old key to a file, ${KEY}=…, and pass it: --secrets-file FILE`,
  );
}

function assertOurs(kind: string, name: string, owner: string | undefined, worker: string): void {
  if (owner === undefined || owner === worker) return;
  const other =
    kind === "queue"
      ? 'Queue names are unique in an account. Set "vars": { "QUEUE_PREFIX": "…-" } and begin the names of your queues with it.'
      : `Workflow names are unique in an account. Give it another "name" in the configuration, such as "${worker}-runs".`;
  throw new Refusal(`The ${kind} "${name}" belongs to the Worker "${owner}". ${other}`);
}

export function planLines(plan: Plan, wanted: Resources, place: string | undefined): string[] {
  const { worker, database, buckets, queues, workflows } = wanted;
  const lines = (what: string, all: readonly string[], lacking: readonly string[]) =>
    [
      ["create", lacking],
      ["keep", all.filter((name) => !lacking.includes(name))],
    ].flatMap(([verb, names]) => (names?.length ? [`${String(verb).padEnd(8)}${what}: ${[...(names as string[])].join(", ")}`] : []));
  const where =
    plan.database === undefined ? `, ${place ? `location ${place}` : "location chosen by Cloudflare (--location sets it)"}` : "";
  const pending = [...new Set([plan, ...plan.cells].flatMap(({ migrations }) => migrations.map(({ name }) => name)))];
  const lacking = wanted.cells.flatMap(({ name }, at) => (plan.cells[at]?.database === undefined ? [name] : []));
  const others = plan.secrets.filter((name) => name !== KEY);
  return [
    ...lines("D1 database", [database.name], plan.database === undefined ? [database.name] : []).map((line) => line + where),
    ...lines(
      "D1 databases of further cells",
      wanted.cells.map(({ name }) => name),
      lacking,
    ),
    ...lines("R2 buckets", buckets, plan.buckets),
    ...lines("queues", queues, plan.queues),
    pending.length > 0
      ? `apply   ${counted(pending.length, "migration")}: ${pending.join(", ")}`
      : "keep    tables: no migration is pending",
    plan.secrets.includes(KEY) ? `set     ${KEY}: a new random key, which is not shown` : `keep    ${KEY}`,
    ...(others.length > 0 ? [`set     secrets: ${others.join(", ")}`] : []),
    ...lines("Workflows", workflows, plan.workflows),
    `${plan.isUpdate ? "update" : "create"}  Worker: ${worker}`,
  ];
}
