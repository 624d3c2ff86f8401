import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { type Deployed, KEY } from "../deploy/resources.ts";
import { KEY_LEAST } from "../deploy/secrets.ts";
import { missingLocally } from "../local/database.ts";
import { shown } from "../local/wrangler.ts";
import { cellsOf, DATABASE, type Project, sourcesOf } from "../project.ts";
import { counted, settingsIn } from "../terminal.ts";
import { Loader } from "../wiring/loader.ts";
import { mistakesIn, unloaded } from "../wiring/mistakes.ts";
import { look } from "../wiring/sources.ts";
import { configurationFindings, sharedNames } from "./configuration.ts";
import type { Finding } from "./finding.ts";
import { packageFindings } from "./packages.ts";

/** Checks the configuration, the sources, the packages and the local database. */
export async function localFindings(project: Project, whole: Deployed, config: Deployed, remote: boolean): Promise<Finding[]> {
  const file = shown(project.config);
  const secrets = existsSync(project.secrets) ? parseEnv(settingsIn(project.secrets)) : undefined;
  const set = secrets && Object.keys(secrets);
  const loader = new Loader(sourcesOf(project));
  const seen = await look({ project, folder: join(project.stateFolder, "doctor/look"), loader, isPublic: true }, config);
  const wiring: Finding[] =
    "mistake" in seen
      ? [{ code: "sources", says: seen.mistake, stops: true }]
      : mistakesIn(config, seen.known, seen.sources, [...(set ?? []), ...(config.secrets?.required ?? []), KEY, "PUBLIC_URL"]).map(
          ({ says, stops }) => {
            return { code: "wiring", says, ...(stops && { stops }) };
          },
        );
  const notLoaded = unloaded(
    config,
    (set ?? []).filter((name) => name !== KEY),
    shown(project.secrets),
  ).map(({ says }) => ({ code: "secret_not_loaded", says }));
  const state = join(project.stateFolder, "state");
  const pending = existsSync(state) ? lackedByCells(state, project, config) : [];
  return [
    ...packageFindings(project),
    ...configurationFindings(config, { file, root: project.root, worker: project.name, remote }),
    ...sharedNames(whole, file, project.env),
    ...wiring,
    ...notLoaded,
    ...(secrets === undefined ? [] : secretFindings(project.secrets, secrets[KEY])),
    ...(pending.length === 0
      ? []
      : [
          {
            code: "migrations_pending",
            says: `The local database lacks ${counted(pending.length, "migration")}: ${pending.join(", ")}. Run:`,
            line: "npx millrace migrate",
          },
        ]),
  ];
}

/** The names of the migrations that the databases of the cells lack. Outside the first cell, a name is followed by its database. */
function lackedByCells(state: string, project: Project, { d1_databases = [] }: Deployed): string[] {
  return cellsOf(project)
    .filter(({ database = DATABASE }) => d1_databases.some(({ binding }) => binding === database))
    .flatMap((cell) => missingLocally(state, cell).map(({ name }) => (cell.database === undefined ? name : `${name} in ${cell.database}`)));
}

function secretFindings(secrets: string, key: string | undefined): Finding[] {
  const file = shown(secrets);
  const wrong =
    key === undefined ? `no ${KEY}` : key.trim().length < KEY_LEAST ? `a ${KEY} of fewer than ${KEY_LEAST} characters` : undefined;
  const isShared = process.platform !== "win32" && (statSync(secrets).mode & 0o077) !== 0;
  return [
    ...(wrong === undefined
      ? []
      : [
          {
            code: "key_missing_locally",
            says: `${file} has ${wrong}: the local engine cannot sign. ${key === undefined ? "Add" : "Set"}, with a random value:`,
            line: `${KEY}=…`,
          },
        ]),
    ...(isShared
      ? [{ code: "secrets_readable", says: `Other users of this machine can read ${file}. Run:`, line: `chmod 600 ${file}` }]
      : []),
  ];
}
