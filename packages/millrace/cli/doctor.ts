import { type Call, runCommand } from "./command.ts";
import { Account } from "./deploy/account.ts";
import { type Deployed, resourcesOf } from "./deploy/resources.ts";
import { type Finding, tellFindings } from "./doctor/finding.ts";
import { localFindings } from "./doctor/local.ts";
import { versionsOf } from "./doctor/packages.ts";
import { remoteFindings } from "./doctor/remote.ts";
import { installWrangler, shown, TRIED, untriedWords, wranglerVersion } from "./local/wrangler.ts";
import { readOptions } from "./options.ts";
import { findProject, type Project } from "./project.ts";
import { paint, say } from "./terminal.ts";
import { configOf, readConfig } from "./wiring/config.ts";

const USAGE = `Usage: npx millrace doctor [--remote] [--env NAME] [--config FILE] [--url URL] [--json]
Examines the configuration, the sources, the packages and the local database.
--env examines an environment of the configuration instead of its top level.
--remote also examines the account, and the deployed Worker at --url or at its own address.
The exit code is 1 where it finds a mistake.`;

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
  else tell(project, findings, Object.keys(whole.env ?? {}));
  return findings.length === 0 ? 0 : 1;
}

function tell(project: Project, findings: readonly Finding[], environments: readonly string[]): void {
  const versions = Object.entries(versionsOf(project)).map(
    ([name, version]) => `${name} ${version}${name === "wrangler" ? ` (tried: ${TRIED.oldest} to ${TRIED.newest})` : ""}`,
  );
  say(paint("dim", `${project.name}: ${versions.join(", ")}`));
  const untried = untriedWords(wranglerVersion(project.wrangler));
  if (untried !== undefined) say(`${paint("yellow", "!")} ${untried} If a command fails: ${installWrangler(project.root)}`);
  tellFindings(findings);
  const count = findings.length === 1 ? "1 mistake" : `${findings.length} mistakes`;
  say(findings.length === 0 ? `${paint("green", "●")} No mistake found.` : `${count} found.`);
  const [first, ...others] = project.env === undefined ? environments : [];
  if (first === undefined) return;
  const also = others.length === 0 ? "" : ` The others: ${others.join(", ")}.`;
  say(`This is the top level of the configuration. Examine its environment: npx millrace doctor --env ${first}.${also}`);
}

await runCommand(doctor);
