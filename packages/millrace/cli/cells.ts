import { userInfo } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Databases, Row } from "./cells/databases.ts";
import { cancelMove, moveTenant, planOf, wordsOf } from "./cells/move.ts";
import { besideOptions, type Call, Misuse, optionIn, runCommand, type Usage } from "./command.ts";
import { Account } from "./deploy/account.ts";
import { lockDeployment } from "./deploy/migrations.ts";
import { databaseOf } from "./deploy/plan.ts";
import { type Deployed, resourcesOf } from "./deploy/resources.ts";
import { useDatabase } from "./local/database.ts";
import { shown } from "./local/wrangler.ts";
import { wantsHelp } from "./options.ts";
import { cellsOf, findProject, type Project } from "./project.ts";
import { say } from "./terminal.ts";
import { TENANT } from "./token/request.ts";
import { asText } from "./token/statements.ts";
import { configOf, readConfig } from "./wiring/config.ts";

const USUAL_WAIT_S = 600;

const USAGE: Usage = {
  text:
    "Usage: npx millrace cells move TENANT CELL [--dry-run] [--wait SECONDS] [--reason TEXT] [WHERE], or: npx millrace cells cancel TENANT [WHERE]. " +
    `Moves a tenant to another cell. Waits at most ${USUAL_WAIT_S} s (--wait) until the tenant has no open work. An interrupted move continues when ` +
    "the command is repeated. WHERE is --remote for the deployed databases, --config or --env of another configuration, or --persist-to " +
    "for the state of another local engine.",
  values: ["--wait", "--reason", "--config", "--env", "--persist-to"],
  flags: ["--remote", "--dry-run"],
};

async function cells({ args, stop }: Call): Promise<number> {
  if (wantsHelp(args)) {
    say(USAGE.text);
    return 0;
  }
  const [verb, tenant = "", number, ...others] = besideOptions(args, USAGE);
  const isMove = verb === "move" && number !== undefined;
  if (others.length > 0 || !(isMove || (verb === "cancel" && number === undefined)) || !TENANT.test(tenant)) throw new Misuse(USAGE.text);
  const project = findProject({ config: optionIn(args, "--config"), env: optionIn(args, "--env") });
  const count = cellsOf(project).length;
  const to = Number(number ?? 1);
  if (!Number.isInteger(to) || to < 1 || to > count)
    throw new Misuse(`CELLS is ${count} in ${shown(project.config)}, so there is no cell ${number}.`);
  const wait = optionIn(args, "--wait") ?? String(USUAL_WAIT_S);
  if (!/^\d{1,6}$/.test(wait)) throw new Misuse(`--wait is a number of seconds, not "${wait}".`);
  const release = args.includes("--remote") ? lockDeployment(project) : () => {};
  try {
    const run = args.includes("--remote") ? await remotely(project, stop) : locally(project, optionIn(args, "--persist-to"));
    if (verb === "cancel") say(`The tenant ${tenant} stays in the cell ${await cancelMove(run, tenant)}.`);
    else if (args.includes("--dry-run")) {
      const { cell, open, rows, keys } = await planOf(run, tenant);
      say(`The tenant ${tenant} lives in the cell ${cell}. A move copies ${rows} rows and ${keys} keys. Open work: ${wordsOf(open)}.`);
    } else {
      await moveTenant({
        ...{ run, tenant, to, say, patienceMs: Number(wait) * 1000 },
        ...{ actor: `cli/${userInfo().username}`, reason: (optionIn(args, "--reason") ?? "").slice(0, 500) },
        wait: (ms) => sleep(ms, undefined, { signal: stop }),
      });
    }
    return 0;
  } finally {
    release();
  }
}

/** The databases of a local engine, which may be running. */
function locally(project: Project, persistTo: string | undefined): Databases {
  const state = process.env.MILLRACE_STATE ?? persistTo ?? join(project.stateFolder, "state");
  const all = cellsOf(project);
  return async (cell, statements) =>
    useDatabase(
      state,
      (database) => {
        database.exec("BEGIN IMMEDIATE");
        try {
          const answers = statements.map(({ text, params }) => database.prepare(text).all(...params.map((one) => one ?? null)) as Row[]);
          database.exec("COMMIT");
          return answers;
        } finally {
          if (database.isTransaction) database.exec("ROLLBACK");
        }
      },
      all[cell - 1],
    );
}

/** The deployed databases, through the API of the account. Several statements are sent as one text, which D1 runs as one transaction. */
async function remotely(project: Project, stop: AbortSignal): Promise<Databases> {
  const config = (configOf(readConfig(project.config), project.env) ?? {}) as Deployed;
  const account = await Account.of(project, config.account_id, say, stop);
  const { database, cells: further } = resourcesOf(config, project.name, project.config);
  const databases = await Promise.all([database, ...further].map((one) => databaseOf(account, one)));
  return async (cell, statements) => {
    const id = databases[cell - 1];
    if (id === undefined) throw new Misuse(`The account has no database of the cell ${cell}. Deploy first: npx millrace deploy`);
    const [first] = statements;
    if (statements.length === 1 && first) return [await account.query<Row>(id, first.text, first.params)];
    return [
      await account.query<Row>(id, asText(...statements.map(({ text, params }) => ({ text, params: params.map((one) => one ?? null) })))),
    ];
  };
}

await runCommand(cells);
