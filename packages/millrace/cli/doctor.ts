import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { type Call, runCommand } from "./command.ts";
import { Account } from "./deploy/account.ts";
import { pendingLocally } from "./deploy/migrations.ts";
import { type Deployed, KEY, resourcesOf } from "./deploy/resources.ts";
import { settingsIn } from "./disk.ts";
import { configurationFindings, sharedNames } from "./doctor/configuration.ts";
import type { Finding } from "./doctor/finding.ts";
import { packageFindings, versionsOf } from "./doctor/packages.ts";
import { remoteFindings } from "./doctor/remote.ts";
import { shown } from "./local/wrangler.ts";
import { readOptions } from "./options.ts";
import { findProject, type Project, sourcesOf } from "./project.ts";
import { paint, say } from "./terminal.ts";
import { configOf, readConfig } from "./wiring/config.ts";
import { Loader } from "./wiring/loader.ts";
import { mistakesIn } from "./wiring/mistakes.ts";
import { look } from "./wiring/sources.ts";

const USAGE = `Usage: npx millrace doctor [--remote] [--env NAME] [--config FILE] [--url URL] [--json]
Examines the configuration, the sources, the packages and the local database. --remote also examines the account and the deployed Worker,
at --url or at its own address. Ends with 1 where it finds a mistake.`;

/** `millrace doctor`: each mistake of a project in a sentence, with the line to paste. */
async function doctor({ args, stop }: Call): Promise<number> {
  const { values: options } = readOptions(USAGE, {
    args,
    options: {
      ...{ env: { type: "string" }, config: { type: "string" }, url: { type: "string" } },
      ...{ remote: { type: "boolean" }, json: { type: "boolean" } },
    },
  });
  const project = findProject({ config: options.config, env: options.env });
  const whole = readConfig(project.config);
  const config = configOf(whole, project.env) as Deployed;
  const findings = [...(await localFindings(project, whole, config, options.remote ?? false))];
  if (options.remote && !findings.some(({ code }) => code.startsWith("database_"))) {
    const wanted = resourcesOf(config, project.name, shown(project.config));
    const silent = () => undefined;
    const account = await Account.of(project, config.account_id, options.json ? silent : say, stop);
    findings.push(...(await remoteFindings(account, project, config, wanted, { url: options.url, isNew: false, stop })).findings);
  }
  if (options.json) say(JSON.stringify({ worker: project.name, versions: versionsOf(project), findings }));
  else tell(project, findings);
  return findings.length === 0 ? 0 : 1;
}

function tell(project: Project, findings: readonly Finding[]): void {
  const versions = Object.entries(versionsOf(project)).map(([name, version]) => `${name} ${version}`);
  say(paint("dim", `${project.name}: ${versions.join(", ")}`));
  for (const { says, line } of findings) say(`${paint("red", "✗")} ${says}${line === undefined ? "" : `\n    ${line}`}`);
  const count = findings.length === 1 ? "1 mistake" : `${findings.length} mistakes`;
  say(findings.length === 0 ? `${paint("green", "●")} No mistake found.` : `${count} found.`);
}

async function localFindings(project: Project, whole: Deployed, config: Deployed, remote: boolean): Promise<Finding[]> {
  const file = shown(project.config);
  const set = existsSync(project.secrets) ? Object.keys(parseEnv(settingsIn(project.secrets))) : undefined;
  const loader = new Loader(sourcesOf(project));
  const seen = await look({ project, folder: join(project.stateFolder, "doctor/look"), loader }, config);
  const prefix = typeof config.vars?.QUEUE_PREFIX === "string" ? config.vars.QUEUE_PREFIX : "";
  const known = "known" in seen ? seen.known.consumers.map(({ queue }) => `${prefix}${queue}`) : [];
  const wiring: Finding[] =
    "mistake" in seen
      ? [{ code: "sources", says: seen.mistake }]
      : mistakesIn(config, seen.known, seen.sources, [...(set ?? []), ...(config.secrets?.required ?? []), KEY, "PUBLIC_URL"]).map(
          ({ says }) => {
            return { code: "wiring", says };
          },
        );
  const pending = pendingLocally(project);
  return [
    ...packageFindings(project),
    ...configurationFindings(config, { file, worker: project.name, known, remote }),
    ...sharedNames(whole, file),
    ...wiring,
    ...(set === undefined || set.includes(KEY)
      ? []
      : [
          {
            code: "key_missing_locally",
            says: `${shown(project.secrets)} has no ${KEY}: the local engine cannot sign. Add, with a random value:`,
            line: `${KEY}=…`,
          },
        ]),
    ...(pending.length === 0
      ? []
      : [
          {
            code: "migrations_pending",
            says: `The local database lacks ${pending.length} migrations: ${pending.map(({ name }) => name).join(", ")}. Run:`,
            line: "npx millrace migrate",
          },
        ]),
  ];
}

await runCommand(doctor);
