import { createInterface } from "node:readline/promises";
import { type Call, Misuse, Refusal, runCommand } from "./command.ts";
import { Account } from "./deploy/account.ts";
import { applyRemotely, claimDatabase, lockDeployment, remoteDatabase } from "./deploy/migrations.ts";
import { type DatabasePlan, type Plan, planLines, planOf, secretsOf } from "./deploy/plan.ts";
import { type Deployed, KEY, type Resources, resourcesOf, runProjectWrangler } from "./deploy/resources.ts";
import { secretsIn, valuesOf, withSecretsFile } from "./deploy/secrets.ts";
import { tellFindings } from "./doctor/finding.ts";
import { localFindings } from "./doctor/local.ts";
import { remoteFindings } from "./doctor/remote.ts";
import { requireWrangler, shown } from "./local/wrangler.ts";
import { readOptions } from "./options.ts";
import { cellsOf, findProject, type Project } from "./project.ts";
import { paint, say, seconds } from "./terminal.ts";
import { configOf, readConfig } from "./wiring/config.ts";

const LOCATIONS = ["wnam", "enam", "sam", "weur", "eeur", "apac", "oc", "afr", "me"];

const USAGE = `Usage: npx millrace deploy [--env NAME] [--location weur] [--dry-run] [--yes] [--config FILE] [--secrets-file FILE]
  [--url URL] [--take-database]
Creates missing resources, applies the migrations, sets MILLRACE_KEY once, deploys the Worker and checks it.
To continue after an interruption, run it again. --dry-run prints the plan.
--take-database takes the database from a Worker that no longer runs. --location is the place of a new database:
${LOCATIONS.join(", ")}.`;

async function deploy({ args, stop }: Call): Promise<number> {
  const { values: options } = readOptions(USAGE, {
    args,
    options: {
      ...{ env: { type: "string" }, location: { type: "string" }, config: { type: "string" }, url: { type: "string" } },
      ...{ "secrets-file": { type: "string" }, "dry-run": { type: "boolean" }, yes: { type: "boolean" } },
      "take-database": { type: "boolean" },
    },
  });
  const began = Date.now();
  if (options.location !== undefined) assertLocation(options.location);
  const project = findProject({ config: options.config, env: options.env });
  requireWrangler(project);
  const whole = readConfig(project.config);
  const config = configOf(whole, project.env) as Deployed;
  const wanted = resourcesOf(config, project.name, shown(project.config));

  const given = options["secrets-file"] === undefined ? {} : secretsIn(options["secrets-file"]);
  const local = await localFindings(project, whole, config, true);
  tellFindings(local);
  if (local.some(({ stops }) => stops)) throw new Refusal("Nothing is deployed. Correct the mistake, then run the same command again.");
  if (!options["dry-run"]) process.once("exit", lockDeployment(project));
  const account = await Account.of(project, config.account_id, say, stop);
  const plan = await planOf(account, project, wanted, {
    hasKey: given[KEY] !== undefined,
    takesDatabase: options["take-database"] ?? false,
  });
  const isAsking = process.stdin.isTTY === true && !options.yes && !options["dry-run"];
  const isNew = plan.database === undefined;
  const place = options.location ?? (isNew && isAsking ? await askLocation(config, stop) : undefined);
  if (!isNew && options.location !== undefined)
    say(paint("yellow", `The database "${wanted.database.name}" exists. Its location cannot change: --location has no effect.`));
  say(paint("bold", `Plan for "${project.name}" in the account ${account.id}:`));
  for (const line of planLines(plan, wanted, place)) say(`  ${line}`);
  if (options["dry-run"]) return 0;
  if (isAsking && !(await confirmed(stop))) return 1;

  const values = await valuesOf(plan.secrets, given, isAsking);
  const step = (sentence: string) => say(paint("dim", sentence));
  await carryOut({ account, project, plan, wanted, place, values, step, stop });

  step("Checking the deployment …");
  const { url, findings: remote } = await remoteFindings(account, project, config, wanted, {
    url: options.url,
    isNew: !plan.isUpdate,
    stop,
  });
  tellFindings(remote);
  const findings = [...local, ...remote];
  const environment = project.env === undefined ? "" : ` --env ${project.env}`;
  const state =
    findings.length === 0
      ? `${paint("green", "●")} Runs at`
      : `${paint("yellow", "●")} Deployed, with ${findings.length === 1 ? "1 mistake" : `${findings.length} mistakes`}, at`;
  say(`${state} ${url} ${paint("dim", `(after ${seconds(Date.now() - began)})`)}`);
  say(`To roll back to the previous version: npx wrangler rollback${environment}. Migrations remain: older code runs on newer tables.`);
  return findings.length === 0 ? 0 : 1;
}

interface Work {
  account: Account;
  project: Project;
  plan: Plan;
  wanted: Resources;
  place: string | undefined;
  values: Record<string, string>;
  step: (sentence: string) => void;
  stop: AbortSignal;
}

/**
 * Executes a deployment plan. No step of the plan changes an existing resource, so that a second call can continue after an interruption.
 */
async function carryOut({ account, project, plan, wanted, place, values, step, stop }: Work): Promise<void> {
  try {
    const databases: { cell: Project; database: string; name: string; plan: DatabasePlan }[] = [];
    for (const [at, cell] of cellsOf(project).entries()) {
      const of = at === 0 ? plan : plan.cells[at - 1];
      const { name } = (at === 0 ? wanted.database : wanted.cells[at - 1]) ?? wanted.database;
      if (of === undefined) continue;
      databases.push({ cell, name, plan: of, database: of.database ?? (await createDatabase({ account, place, step }, name)) });
    }
    for (const bucket of plan.buckets) await account.make("/r2/buckets", `the bucket "${bucket}"`, { name: bucket });
    if (plan.queues.length > 0) step(`Creating ${plan.queues.length} queues …`);
    for (const queue of plan.queues) await account.make("/queues", `the queue "${queue}"`, { queue_name: queue });
    // The migrations are applied before the new code is deployed, because old code works with new tables, but new code fails with old
    // tables.
    step("Applying the migrations …");
    for (const { cell, database, name, plan: of } of databases) {
      if (of.owner !== wanted.worker)
        await claimDatabase(account, database, { name: wanted.worker, database: name, takes: of.owner !== undefined });
      const left = async () => (await remoteDatabase(account, project, database)).migrations;
      await applyRemotely(cell, of.migrations, left, { account: account.id, stop });
    }
    step("Deploying the Worker …");
    // Another deployment may have set the secrets after the plan was computed. A second key would make the engine repeat effects.
    const set = Object.keys(values).length === 0 ? [] : await secretsOf(account, wanted);
    const lacking = Object.fromEntries(Object.entries(values).filter(([secret]) => !set?.includes(secret)));
    await withSecretsFile(project.stateFolder, lacking, (input) => {
      const secrets = input === undefined ? [] : ["--secrets-file", "/dev/stdin"];
      return runProjectWrangler(project, "deploy the Worker", ["deploy", ...secrets], { account: account.id, input, stop });
    });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new Refusal(`${error.message} The deployment is not complete. Run the same command again: it continues.`);
  }
}

async function createDatabase({ account, place, step }: Pick<Work, "account" | "place" | "step">, name: string): Promise<string> {
  step(`Creating the database "${name}" …`);
  const body = { name, ...(place && { primary_location_hint: place }) };
  const made = await account.make<{ uuid: string }>("/d1/database", `the database "${name}"`, body);
  // If another deployment created the database after the plan, the database can have migrations and instances that are not in the plan.
  if (!made) throw new Refusal(`The database "${name}" exists by now: the plan is out of date.`);
  return made.uuid;
}

function assertLocation(place: string): void {
  if (!LOCATIONS.includes(place)) throw new Misuse(`--location must be one of ${LOCATIONS.join(", ")}, not "${place}".`);
}

/** Asks the user for the location of a new database. The default location is the value of LOCATION_HINT in the configuration. */
async function askLocation({ vars }: Deployed, stop: AbortSignal): Promise<string | undefined> {
  const hint = typeof vars?.LOCATION_HINT === "string" ? vars.LOCATION_HINT : "";
  const places = `${LOCATIONS.join(", ")}; empty: ${hint || "Cloudflare chooses"}`;
  const place = (await ask(`Location of the new database, which cannot change later (${places}): `, stop)) || hint;
  if (place) assertLocation(place);
  return place || undefined;
}

async function confirmed(stop: AbortSignal): Promise<boolean> {
  return /^(y|yes)$/i.test(await ask("Continue? [y/N] ", stop));
}

async function ask(question: string, signal: AbortSignal): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return (await lines.question(question, { signal })).trim();
  } finally {
    lines.close();
  }
}

await runCommand(deploy);
