import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Deployed, isPlaceholder, KEY } from "../deploy/resources.ts";
import { ENGINE_PATHS } from "../init/wanted.ts";
import { DATABASE } from "../project.ts";
import { configOf } from "../wiring/config.ts";
import { json } from "../wiring/mistakes.ts";
import type { Finding } from "./finding.ts";

/** The oldest compatibility date that is tested. */
export const OLDEST_DATE = "2026-10-01";
/** Compatibility flags that the engine needs, each with the consequence if the flag is missing. */
const FLAGS = {
  nodejs_compat: "modules of Node are missing",
  global_fetch_strictly_public: "a webhook to a host of your own zone bypasses the zone's rules",
  queue_consumer_no_wait_for_wait_until: "each batch waits for work that continues after its messages are settled",
};
/** The platform limits that an instance needs, which are higher than the platform's defaults. */
const LIMITS = { subrequests: 10_000_000, cpu_ms: 300_000 };

/** The different texts of a cron trigger that runs every minute. */
const EACH_MINUTE = /^(\*|0-59)(\/1)?\s+(\*|0-23)(\/1)?\s+(\*|1-31)(\/1)?\s+(\*|1-12|JAN-DEC)(\/1)?\s+(\*|1-7|SUN-SAT)(\/1)?$/i;

interface Compared {
  /** The path of the configuration file, as messages show the path. */
  file: string;
  root: string;
  worker: string;
  /** True if the Cloudflare account is also examined. */
  remote: boolean;
}

export function configurationFindings(config: Deployed, compared: Compared): Finding[] {
  return [databases, twice, folders, bucket, secrets, settings].flatMap((check) => check(config, compared));
}

function databases({ d1_databases = [], vars }: Deployed, { file, worker, remote }: Compared): Finding[] {
  const count = Math.max(1, Number(vars?.CELLS ?? 1) || 1);
  const found = Array.from({ length: count }, (_, index) => (index === 0 ? "" : `_${index + 1}`)).flatMap((cell): Finding[] => {
    const name = `${DATABASE}${cell}`;
    const bound = d1_databases.find(({ binding }) => binding === name);
    const line = json({ binding: name, database_name: bound?.database_name ?? `${worker}${cell.replace("_", "-")}` });
    if (!bound) return [{ code: "database_missing", says: `${file} binds no D1 database as ${name}. Add to "d1_databases":`, line }];
    if (!remote || !isPlaceholder(bound.database_id)) return [];
    const says = `${file}: the database_id of ${name} is a placeholder. Remove it: a deployment finds the database by its name. The line is then:`;
    return [{ code: "database_placeholder", says, line }];
  });
  const highest = Math.max(count, ...d1_databases.map(({ binding }) => Number(/^DB_(\d+)$/.exec(binding)?.[1] ?? 1)));
  if (vars?.CELLS === undefined || highest === count) return found;
  const says = `${file} binds DB_${highest}, but CELLS is ${count}: the tenants of the other cells get no service. Set in "vars":`;
  return [...found, { code: "cells_lowered", says, line: `"CELLS": ${highest}` }];
}

/** Bindings that are declared twice in one section. */
function twice({ d1_databases = [], r2_buckets = [], queues = {}, workflows = [] }: Deployed, { file }: Compared): Finding[] {
  const kinds = { d1_databases, r2_buckets, "queues.producers": queues.producers ?? [], workflows };
  return Object.entries(kinds).flatMap(([field, bound]) => {
    const names = bound.map(({ binding }) => binding);
    return [...new Set(names.filter((name, at) => names.indexOf(name) !== at))].map((name) => ({
      code: "binding_twice",
      says: `${file} has the binding ${name} in "${field}" twice. Remove one of them.`,
      stops: true,
    }));
  });
}

/** Reports folders that the configuration names and that do not exist, and assets that hide the engine's paths. */
function folders({ d1_databases = [], assets, build }: Deployed, { file, root }: Compared): Finding[] {
  const { migrations_dir: dir, migrations_pattern } = d1_databases.find(({ binding }) => binding === DATABASE) ?? {};
  const lacks = (code: string, what: string, folder: string) =>
    existsSync(join(root, folder))
      ? []
      : [{ code, says: `${file}: ${what} is "${folder}", which does not exist. Correct the path, or make the folder.` }];
  const { directory, not_found_handling: handling, run_worker_first: first } = assets ?? {};
  return [
    ...(dir === undefined || migrations_pattern !== undefined
      ? []
      : lacks("migrations_dir_missing", `"migrations_dir" of ${DATABASE}`, dir)),
    // With a custom build, the folder of the assets may not exist yet.
    ...(directory === undefined || build !== undefined ? [] : lacks("assets_missing", '"directory" of "assets"', directory)),
    ...(handling && handling !== "none" && first === undefined
      ? [
          {
            code: "assets_first",
            says: `${file}: "not_found_handling" of "assets" answers the engine's paths with a page. Add to "assets":`,
            line: `"run_worker_first": ${JSON.stringify(ENGINE_PATHS)}`,
          },
        ]
      : []),
  ];
}

function bucket({ r2_buckets = [] }: Deployed, { file, worker }: Compared): Finding[] {
  if (r2_buckets.some(({ binding }) => binding === "PAYLOADS")) return [];
  const line = json({ binding: "PAYLOADS", bucket_name: `${worker}-payloads` });
  return [
    { code: "bucket_missing", says: `${file} binds no R2 bucket as PAYLOADS, for payloads above 32 KiB. Add to "r2_buckets":`, line },
  ];
}

function secrets({ secrets, vars = {} }: Deployed, { file, remote }: Compared): Finding[] {
  const readable = [...new Set([KEY, ...(secrets?.required ?? [])])].filter((name) => vars[name] !== undefined);
  if (readable.length > 0)
    return readable.map((name) => ({
      code: "key_public",
      says: `${file} has the secret ${name} in "vars": a deployment would replace the secret by this plain text. Remove it, and run:`,
      line: `npx wrangler secret put ${name}`,
      stops: true,
    }));
  // The key is not checked here in a remote check, which asks the account whether the deployed Worker has the key.
  if (remote || secrets?.required?.includes(KEY)) return [];
  const line = `"secrets": { "required": ${JSON.stringify([...(secrets?.required ?? []), KEY])} }`;
  return [
    {
      code: "key_not_required",
      says: `${file} does not require ${KEY}: a deployment without the key would succeed, and its effects fail. Add:`,
      line,
    },
  ];
}

function settings(config: Deployed, { file }: Compared): Finding[] {
  const { compatibility_date: date = "", compatibility_flags: flags = [], limits = {}, triggers, observability } = config;
  const missing = Object.entries(FLAGS).filter(([flag]) => !flags.includes(flag));
  const tooLow = Object.entries(LIMITS).some(([name, least]) => (limits[name as keyof typeof LIMITS] ?? 0) < least);
  return [
    ...(date >= OLDEST_DATE
      ? []
      : [
          {
            code: "date_old",
            says: `${file} has the compatibility date ${date || "of no day"}. The engine is tested from ${OLDEST_DATE} on. Set:`,
            line: `"compatibility_date": "${OLDEST_DATE}"`,
          },
        ]),
    ...missing.map(([flag, otherwise]) => ({
      code: "flag_missing",
      says: `${file} lacks the compatibility flag ${flag}: ${otherwise}. Set:`,
      line: `"compatibility_flags": ${JSON.stringify([...flags, ...missing.map(([one]) => one)])}`,
    })),
    ...(tooLow
      ? [
          {
            code: "limits_missing",
            says: `${file} leaves the limits at their defaults: an instance ends after 10,000 calls, and a replay after 30 s of CPU. Set:`,
            line: `"limits": ${json(LIMITS)}`,
          },
        ]
      : []),
    ...(triggers?.crons?.some((cron) => EACH_MINUTE.test(cron.trim()))
      ? []
      : [
          {
            code: "cron_missing",
            says: `${file} has no cron trigger for each minute: schedules do not start, and the keeper does not restart. Set:`,
            line: `"triggers": { "crons": ${JSON.stringify([...(triggers?.crons ?? []), "* * * * *"])} }`,
          },
        ]),
    ...((observability as { enabled?: boolean } | undefined)?.enabled
      ? []
      : [{ code: "logs_lost", says: `${file} does not keep the Worker's logs. Set:`, line: '"observability": { "enabled": true }' }]),
  ];
}

/**
 * Reports resources whose names occur in two environments. Neither environment can be deployed, because both environments would use the
 * same resource.
 */
export function sharedNames(config: Deployed, file: string, deployed: string | undefined): Finding[] {
  const environments = [undefined, ...Object.keys(config.env ?? {})].map((env) => ({ env, own: configOf(config, env) as Deployed }));
  const seen = new Map<string, { env: string | undefined }>();
  return environments.flatMap(({ env, own }) =>
    namesOf(own).flatMap(({ kind, name, as = "name" }): Finding[] => {
      const key = `${own.account_id ?? ""} ${kind} "${name}"`;
      const other = seen.get(key);
      seen.set(key, other ?? { env });
      if (other === undefined || other.env === env) return [];
      const [there, here] = [other.env, env].map((one) => (one === undefined ? "the top level" : `"${one}"`));
      return [
        {
          code: "names_shared",
          says: `${file}: ${there} and ${here} share the ${kind} "${name}". Give it another ${as} in ${here}${as === "name" ? `, such as "${env}-${name}"` : ""}.`,
          stops: deployed === env || deployed === other.env,
        },
      ];
    }),
  );
}

interface Named {
  kind: string;
  name: string | undefined;
  /** The name of the field whose value must differ between environments. */
  as?: string;
}

function namesOf({ name, d1_databases = [], r2_buckets = [], queues = {}, workflows = [], exports = {} }: Deployed) {
  const all: Named[] = [
    { kind: "Worker", name },
    ...d1_databases.map(({ database_name: name }) => ({ kind: "D1 database", name })),
    ...d1_databases.map(({ database_id: id }) => ({ kind: "D1 database", name: isPlaceholder(id) ? undefined : id, as: "database_id" })),
    ...r2_buckets.map(({ bucket_name: name }) => ({ kind: "R2 bucket", name })),
    ...(queues.consumers ?? []).map(({ queue: name }) => ({ kind: "queue", name })),
    ...workflows.map(({ name, script_name }) => ({ kind: "Workflow", name: script_name === undefined ? name : undefined })),
    ...Object.values(exports).map(({ type, name }) => ({ kind: "Workflow", name: type === "workflow" ? name : undefined })),
  ];
  return all.filter(({ name }) => name !== undefined);
}
