import { Refusal } from "../command.ts";
import { DATABASE } from "../project.ts";
import { type Config, configOf, type D1 } from "../wiring/config.ts";

/** A change of a configuration: a value for a path that does not exist, or items to append to a list. */
export interface Change {
  readonly path: readonly string[];
  readonly value: unknown;
  /** True if the items of `value` are appended to an existing list. */
  readonly adds?: boolean;
  readonly why?: string;
}

export interface Beside {
  /** The name of the Worker. If an environment is selected, the name that wrangler gives to the Worker of this environment. */
  name: string;
  env: string | undefined;
  secrets: readonly string[];
  /** The binding or the name of the database to use, if the configuration has several databases. */
  database?: string | undefined;
}

export const EVERY_MINUTE = "* * * * *";
export const CONSOLE_ASSETS = "node_modules/millrace/dist/assets";
/** The paths that the engine serves. If the assets have `not_found_handling`, static assets would answer requests for these paths. */
export const ENGINE_PATHS = [
  "/v1/*",
  "/console",
  "/console/*",
  "!/console/assets/*",
  "/healthz",
  "/metrics",
  "/openapi.json",
  "/problems/*",
];
const SITE = "The engine answers these paths, and not a page of the site.";
/** If the compatibility date is this date or later, `exports` needs no flag. */
const HAS_EXPORTS = "2025-11-17";

export function changesOf(whole: Config, beside: Beside): Change[] {
  const { env } = beside;
  const config = configOf(whole, env) ?? {};
  const all = [...shared(config, beside), ...bindings(config, beside)];
  if (env === undefined) return all;
  const isInherited = whole.env?.[env]?.exports === undefined;
  return (isInherited ? withOwnExports(config, env, all) : all).map((one) => ({ ...one, path: ["env", env, ...one.path] }));
}

/**
 * Gives an environment its own `exports`. An environment inherits `exports` as a whole, but the name of a Workflow must be unique in an
 * account.
 */
function withOwnExports({ exports = {}, name }: Config, env: string, changes: readonly Change[]): Change[] {
  const hasWorkflow = Object.values(exports).some(({ type }) => type === "workflow");
  const added = changes.filter(({ path }) => path[0] === "exports");
  if (!hasWorkflow && added.length === 0) return [...changes];
  const inherited = Object.entries(exports).map(([key, one]) => {
    if (one.type !== "workflow") return [key, one];
    return [key, { ...one, name: key === "Runs" ? `${name}-runs` : `${one.name ?? key}-${env}` }];
  });
  const value = Object.assign(
    Object.fromEntries(inherited),
    ...added.map((one) => (one.path.length === 1 ? one.value : { [one.path[1] ?? ""]: one.value })),
  );
  const why = "The classes of the top level. A Workflow's name belongs to one environment.";
  return [...changes.filter((one) => !added.includes(one)), { path: ["exports"], value, why }];
}

/** The changes to the top level, which each environment inherits. */
function shared(config: Config, { name, secrets }: Beside): Change[] {
  const { compatibility_flags: flags = [], compatibility_date: date = "" } = config as {
    compatibility_flags?: string[];
    compatibility_date?: string;
  };
  const needed = [
    ...(flags.includes("nodejs_compat_v2") ? [] : ["nodejs_compat"]),
    ...["global_fetch_strictly_public", "queue_consumer_no_wait_for_wait_until"],
    ...(date < HAS_EXPORTS ? ["enable_ctx_exports"] : []),
  ];
  const {
    limits = {},
    observability,
    assets,
    triggers,
  } = config as {
    limits?: object;
    observability?: object;
    assets?: { directory?: string; not_found_handling?: string; run_worker_first?: unknown };
    triggers?: { crons?: string[] };
  };
  const hasSite = assets !== undefined && assets.directory !== CONSOLE_ASSETS;
  return [
    ...added(["compatibility_flags"], flags, needed, {
      why: "Optional: fetches to your zone pass its rules (strictly_public), and a batch ends when its messages are settled (no_wait).",
    }),
    ...missing(
      observability,
      ["observability"],
      { enabled: true, logs: { enabled: true, invocation_logs: false } },
      "Optional: without a line for each invocation, because the engine logs each run.",
    ),
    ...Object.entries({ subrequests: 10_000_000, cpu_ms: 300_000 })
      .filter(([field]) => !Object.hasOwn(limits, field))
      .map(([field, value]) => ({
        path: ["limits", field],
        value,
        ...(Object.keys(limits).length === 0 &&
          field === "subrequests" && {
            why: "Optional: the defaults end an instance after 10,000 calls, and a run of its code after 30 s of CPU.",
          }),
      })),
    ...secretsOf(config, secrets),
    ...together(config, [
      ...objects(config),
      ...missing(runsIn(config), ["exports", "Runs"], { type: "workflow", name: `${name}-runs` }, RUNS),
    ]),
    ...added(["triggers", "crons"], triggers?.crons ?? [], [EVERY_MINUTE], { why: "Each minute: the engine's schedules and its repairs." }),
    ...missing(assets, ["assets"], { directory: CONSOLE_ASSETS }, "The script and the style of the console."),
    ...(hasSite && Array.isArray(assets.run_worker_first)
      ? added(["assets", "run_worker_first"], assets.run_worker_first, ENGINE_PATHS, { why: SITE })
      : []),
    ...(hasSite && assets.not_found_handling && assets.run_worker_first === undefined
      ? [{ path: ["assets", "run_worker_first"], value: ENGINE_PATHS, why: SITE }]
      : []),
  ];
}

/** With `secrets.required`, wrangler loads only the listed names from `.dev.vars`, so all names in `.dev.vars` are added. */
function secretsOf({ secrets, vars = {} }: Config, names: readonly string[]): Change[] {
  const { required } = (secrets ?? {}) as { required?: string[] };
  const loaded = required === undefined ? names.filter((one) => one !== "MILLRACE_KEY" && !Object.hasOwn(vars, one)) : [];
  const why =
    "A deployment without these secrets is refused. Keep MILLRACE_KEY: open instances depend on it. Wrangler loads only these names from .dev.vars.";
  return added(["secrets", "required"], required ?? [], ["MILLRACE_KEY", ...loaded], { why });
}

const RUNS = "Runs executes every workflow of millrace({ workflows: […] }).";
const OBJECTS = "The recorder stores the outcomes of steps. The keeper restarts runs after crashes.";

function together({ exports }: Config, changes: Change[]): Change[] {
  const within = changes.filter(({ path }) => path[0] === "exports");
  if (exports !== undefined || within.length < 2) return changes;
  const value = Object.fromEntries(within.map(({ path, value }) => [path[1], value]));
  return [{ path: ["exports"], value, why: `${OBJECTS} ${RUNS}` }, ...changes.filter((one) => !within.includes(one))];
}

const runsIn = (config: Config) =>
  (config.exports as Record<string, unknown> | undefined)?.Runs ?? (config.workflows ?? []).find(({ class_name }) => class_name === "Runs");

/**
 * Declares the Durable Objects in `exports`. If the configuration has `migrations`, the objects are bound instead, because wrangler does
 * not accept `exports` and `migrations` together.
 */
function objects(config: Config): Change[] {
  const classes = ["Recorder", "Keeper"];
  const { durable_objects, migrations = [], exports = {} } = config as Config & { exports?: Record<string, unknown> };
  const strategy = missing(
    (durable_objects as { code_update_strategy?: object } | undefined)?.code_update_strategy,
    ["durable_objects", "code_update_strategy"],
    { mode: "deferred", max_delay: 60 },
    "Optional: after a deployment, an object that works keeps its code for up to 60 s.",
  );
  const bound = (durable_objects?.bindings ?? []).filter(({ script_name }) => script_name === undefined);
  const isDeclared = ({ class_name }: { class_name: string }) => Object.hasOwn(exports, class_name);
  if (migrations.length === 0 && bound.every(isDeclared)) {
    return [
      ...classes
        .filter((one) => !Object.hasOwn(exports, one))
        .map((one, at) => ({
          path: ["exports", one],
          value: { type: "durable-object", storage: "sqlite" },
          ...(at === 0 && { why: OBJECTS }),
        })),
      ...strategy,
    ];
  }
  const unbound = classes.filter((one) => !bound.some(({ class_name }) => class_name === one));
  const made = migrations.flatMap(({ new_sqlite_classes = [] }) => new_sqlite_classes);
  const unmade = classes.filter((one) => !made.includes(one));
  return [
    ...added(
      ["durable_objects", "bindings"],
      [],
      unbound.map((one) => ({ name: one.toUpperCase(), class_name: one })),
      {
        why: OBJECTS,
      },
    ),
    ...(unmade.length > 0 ? [{ path: ["migrations"], adds: true, value: [{ tag: "millrace-v1", new_sqlite_classes: unmade }] }] : []),
    ...strategy,
  ];
}

/** The changes that an environment does not inherit, so that each environment needs its own. */
function bindings(config: Config, { name, env, database: chosen }: Beside): Change[] {
  const {
    d1_databases = [],
    r2_buckets = [],
    queues: { producers = [], consumers = [] } = {},
    vars = {},
  } = config as Config & {
    r2_buckets?: { binding: string }[];
  };
  const given = vars.QUEUE_PREFIX;
  // If QUEUE_PREFIX is not set yet, the prefix is derived from the name of the bound queue.
  const bound = producers.find(({ binding }) => binding === "MILLRACE_QUEUE")?.queue;
  const prefix = typeof given === "string" ? given : bound === undefined ? `${name}-` : (/^(.*)millrace$/.exec(bound)?.[1] ?? "");
  const queue = `${prefix}millrace`;
  const letters = `${queue}-dlq`;
  const unbound = [
    { binding: "MILLRACE_QUEUE", queue },
    { binding: "MILLRACE_DEAD_LETTERS", queue: letters },
  ].filter((one) => !producers.some(({ binding, queue }) => binding === one.binding || queue === one.queue));
  const unconsumed = [
    { queue, max_batch_size: 10, max_batch_timeout: 0, max_retries: 3, max_concurrency: 5, dead_letter_queue: letters },
    { queue: letters, max_batch_size: 100, max_batch_timeout: 1, max_retries: 100, max_concurrency: 1 },
  ].filter((one) => !consumers.some(({ queue }) => queue === one.queue));
  const only = databaseOf(d1_databases, chosen);
  const database = only ? { ...only, binding: DATABASE } : { binding: DATABASE, database_name: name };
  const of = env === undefined ? "" : ` of ${env}`;
  return [
    ...added(["d1_databases"], [], d1_databases.some(({ binding }) => binding === DATABASE) ? [] : [database], {
      why: only
        ? `The engine's tables (named millrace_…): the same database${of} under the name that the engine uses.`
        : `The engine's tables${of}, and yours: a step can write to both at once.`,
    }),
    ...added(
      ["r2_buckets"],
      [],
      r2_buckets.some(({ binding }) => binding === "PAYLOADS") ? [] : [{ binding: "PAYLOADS", bucket_name: `${name}-payloads` }],
      {
        why: "Payloads above 32 KiB, and outputs above 128 KiB.",
      },
    ),
    ...(given === undefined && prefix !== ""
      ? [
          {
            path: ["vars", "QUEUE_PREFIX"],
            value: prefix,
            why: "A queue has one consumer in an account: with the prefix, each Worker has its own queue.",
          },
        ]
      : []),
    ...added(["queues", "producers"], [], unbound, {
      why: "The queue of commands. The dead-letter queue is bound so that a deployment creates it.",
    }),
    ...added(["queues", "consumers"], [], unconsumed, { why: "The second consumer stores dead letters. Without it they are lost." }),
  ];
}

/** The database that the engine shares with the app: the chosen database, or the only database of the configuration. */
function databaseOf(databases: readonly D1[], chosen: string | undefined): D1 | undefined {
  if (chosen === undefined) return databases.length === 1 ? databases[0] : undefined;
  const found = databases.find(({ binding, database_name }) => binding === chosen || database_name === chosen);
  if (found) return found;
  const names = databases.map(({ binding }) => binding).join(", ");
  throw new Refusal(`The configuration binds no D1 database as ${chosen}. It binds: ${names || "none"}.`);
}

function missing(there: unknown, path: readonly string[], value: unknown, why?: string): Change[] {
  return there === undefined ? [{ path, value, ...(why !== undefined && { why }) }] : [];
}

function added(path: readonly string[], there: readonly unknown[], needed: readonly unknown[], { why }: { why: string }): Change[] {
  const value = needed.filter((one) => !there.includes(one));
  return value.length === 0 ? [] : [{ path, value, adds: true, why }];
}

export function changed(config: Config, changes: readonly Change[]): Config {
  const result = structuredClone(config);
  for (const { path, value, adds } of changes) {
    let at = result as Record<string, unknown>;
    for (const part of path.slice(0, -1)) {
      at[part] ??= {};
      at = at[part] as Record<string, unknown>;
    }
    const last = path.at(-1) ?? "";
    at[last] = adds ? [...((at[last] as unknown[]) ?? []), ...(value as unknown[])] : value;
  }
  return result;
}
