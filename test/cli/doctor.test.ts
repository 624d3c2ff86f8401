import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";
import { Account } from "./account/account.ts";
import { configuration, millrace, resources, shop } from "./account/shop.ts";

const PROGRAM = `import { defineWorkflow, millrace } from "millrace";
import * as z from "zod";
const greet = defineWorkflow({
  name: "greet",
  input: z.object({ name: z.string() }),
  key: ({ name }) => name,
  run: ({ input, step }) => step.commit("say it", () => ({ output: input.name })),
});
export const { handler, Runs, Recorder, Keeper } = millrace({ workflows: [greet] });
export default handler;`;

type Configuration = ReturnType<typeof configuration> & Record<string, unknown>;
type Said = [says: string, line?: string];

/** A shop project with the engine, and one error. */
function greeter(breaks: (config: Configuration, folder: string) => void = () => undefined): string {
  const config: Configuration = { ...configuration(), main: "worker.ts" };
  const folder = shop();
  writeFileSync(join(folder, "worker.ts"), PROGRAM);
  breaks(config, folder);
  writeFileSync(join(folder, "wrangler.jsonc"), JSON.stringify(config));
  return folder;
}

async function examined(folder: string, account: Account, ...more: string[]): Promise<{ code: number | null; findings: Said[] }> {
  const { code, said } = await millrace(folder, account, ["doctor", "--json", ...more]);
  const { findings } = JSON.parse(said) as { findings: { says: string; line?: string }[] };
  return { code, findings: findings.map(({ says, line }) => (line === undefined ? [says] : [says, line])) };
}

const consumers = (config: Configuration) => config.queues.consumers as Record<string, unknown>[];
const object = '{ "type": "durable-object", "storage": "sqlite" }';
const flags = '"compatibility_flags": ["nodejs_compat","queue_consumer_no_wait_for_wait_until","global_fetch_strictly_public"]';

it("doctor reports no error in a correct project", async () => {
  const account = new Account();
  expect(await examined(greeter(), account)).toEqual({ code: 0, findings: [] });
}, 60_000);

it("doctor prints the tested versions of wrangler, and reports a newer one", async () => {
  const folder = greeter();
  const tried = await millrace(folder, new Account(), ["doctor"]);
  expect(tried.said).toMatch(/wrangler [\d.]+ \(tried: 4\.156\.0 to 4\.164\.0\)/);
  expect(tried.said).not.toContain("is newer");
  const manifest = join(folder, "node_modules/wrangler/package.json");
  const [packages, wrangler] = [join(folder, "node_modules"), dirname(manifest)];
  rmSync(packages);
  mkdirSync(wrangler, { recursive: true });
  for (const name of readdirSync(join(ROOT, "node_modules")))
    if (name !== "wrangler") symlinkSync(join(ROOT, "node_modules", name), join(packages, name));
  for (const name of readdirSync(join(ROOT, "node_modules/wrangler")))
    symlinkSync(join(ROOT, "node_modules/wrangler", name), join(wrangler, name));
  const real = readFileSync(manifest, "utf8");
  rmSync(manifest);
  writeFileSync(manifest, JSON.stringify({ ...JSON.parse(real), version: "4.999.0" }));
  const untried = await millrace(folder, new Account(), ["doctor"]);
  expect([untried.code, untried.said]).toEqual([0, expect.stringContaining("wrangler 4.999.0 is newer than 4.164.0, the newest version")]);
}, 60_000);

it("doctor does not report that an optional package is missing", async () => {
  const folder = greeter();
  const packages = join(folder, "node_modules");
  rmSync(packages);
  mkdirSync(packages);
  for (const name of readdirSync(join(ROOT, "node_modules")))
    if (name !== "@modelcontextprotocol") symlinkSync(join(ROOT, "node_modules", name), join(packages, name));
  expect(await examined(folder, new Account())).toEqual({ code: 0, findings: [] });
}, 60_000);

it("doctor reports no error for a Workflow and a queue that the Worker uses without the engine", async () => {
  const folder = greeter((config, root) => {
    const old = "export class Old extends WorkflowEntrypoint { async run() {} }";
    writeFileSync(join(root, "worker.ts"), `import { WorkflowEntrypoint } from "cloudflare:workers";\n${PROGRAM}\n${old}`);
    Object.assign(config, { workflows: [{ binding: "OLD", name: "old", class_name: "Old" }] });
    consumers(config).push({ queue: "mail" });
  });
  expect(await examined(folder, new Account())).toEqual({ code: 0, findings: [] });
}, 60_000);

it.each<[string, (config: Configuration, folder: string) => void, Said[]]>([
  [
    "a Durable Object that is not declared",
    (config) => Object.assign(config.exports, { Recorder: undefined }),
    [[`The Durable Object Recorder of the engine is not declared. Add this line to "exports" in wrangler.jsonc: "Recorder": ${object}`]],
  ],
  [
    "a class that is not exported",
    (_, folder) => writeFileSync(join(folder, "worker.ts"), PROGRAM.replace("Recorder, Keeper", "Recorder")),
    [
      [
        '"exports" in wrangler.jsonc has the Durable Object Keeper, which is not exported. ' +
          "Add this to worker.ts: export const { handler, Runs, Recorder, Keeper } = millrace({ … });",
      ],
    ],
  ],
  [
    "no Workflow class",
    (config) => Object.assign(config.exports, { Runs: undefined }),
    [['No Workflow class runs "greet". Add this line to "exports" in wrangler.jsonc: "Runs": { "type": "workflow", "name": "shop-runs" }']],
  ],
  [
    "a queue without a producer",
    (config) => config.queues.producers.pop(),
    [
      [
        'The queue "millrace" is not bound. Add in wrangler.jsonc to "queues.producers": { "binding": "MILLRACE_QUEUE", "queue": "millrace" }',
      ],
    ],
  ],
  [
    "a queue without a consumer",
    (config) => consumers(config).shift(),
    [
      [
        'No consumer receives the messages of the queue "millrace". Add in wrangler.jsonc to "queues.consumers": { "queue": "millrace", ' +
          '"max_batch_size": 10, "max_batch_timeout": 0, "max_retries": 3, "max_concurrency": 5, "dead_letter_queue": "millrace-dlq" }',
      ],
    ],
  ],
  [
    "a queue without a dead-letter queue",
    (config) => delete consumers(config)[0]?.dead_letter_queue,
    [
      [
        'The queue "millrace" has no dead-letter queue: the platform deletes a message after 3 failed retries, and nothing reports it. ' +
          'Add to its consumer in wrangler.jsonc: "dead_letter_queue": "millrace-dlq"',
      ],
    ],
  ],
  [
    "a dead-letter queue without a consumer",
    (config) => consumers(config).pop(),
    [
      [
        'No consumer stores the dead letters of the queue "millrace": the platform deletes them after 4 days. Add in wrangler.jsonc to ' +
          '"queues.consumers": { "queue": "millrace-dlq", "max_batch_size": 100, "max_batch_timeout": 1, "max_retries": 100, "max_concurrency": 1 }',
      ],
    ],
  ],
  [
    "a QUEUE_PREFIX with which no queue's name begins",
    (config) => Object.assign(config, { vars: { QUEUE_PREFIX: "stg-" } }),
    [
      [
        'QUEUE_PREFIX is "stg-", but no queue in wrangler.jsonc begins with it. ' +
          'Begin the names of all queues with it, such as "queue": "stg-millrace", or remove QUEUE_PREFIX from "vars".',
      ],
    ],
  ],
  [
    "no database",
    (config) => Object.assign(config, { d1_databases: [] }),
    [['wrangler.jsonc binds no D1 database as DB. Add to "d1_databases":', '{ "binding": "DB", "database_name": "shop" }']],
  ],
  [
    "no bucket",
    (config) => Object.assign(config, { r2_buckets: [] }),
    [
      [
        'wrangler.jsonc binds no R2 bucket as PAYLOADS, for payloads above 32 KiB. Add to "r2_buckets":',
        '{ "binding": "PAYLOADS", "bucket_name": "shop-payloads" }',
      ],
    ],
  ],
  [
    "a configuration that does not require MILLRACE_KEY",
    (config) => Object.assign(config, { secrets: undefined }),
    [
      [
        "wrangler.jsonc does not require MILLRACE_KEY: a deployment without the key would succeed, and its effects fail. Add:",
        '"secrets": { "required": ["MILLRACE_KEY"] }',
      ],
    ],
  ],
  [
    "a .dev.vars without MILLRACE_KEY",
    (_, folder) => writeFileSync(join(folder, ".dev.vars"), "STRIPE_KEY=1\n", { mode: 0o600 }),
    [
      [
        '.dev.vars has STRIPE_KEY, which "secrets.required" in wrangler.jsonc does not list: wrangler does not load it. Add it there: "STRIPE_KEY"',
      ],
      [".dev.vars has no MILLRACE_KEY: the local engine cannot sign. Add, with a random value:", "MILLRACE_KEY=…"],
    ],
  ],
  [
    "a .dev.vars with an empty MILLRACE_KEY, which other users can read",
    (_, folder) => writeFileSync(join(folder, ".dev.vars"), "MILLRACE_KEY=\n", { mode: 0o644 }),
    [
      [
        ".dev.vars has a MILLRACE_KEY of fewer than 16 characters: the local engine cannot sign. Set, with a random value:",
        "MILLRACE_KEY=…",
      ],
      ["Other users of this machine can read .dev.vars. Run:", "chmod 600 .dev.vars"],
    ],
  ],
  [
    "configured folders that do not exist",
    (config) => {
      Object.assign(config.d1_databases[0] ?? {}, { migrations_dir: "sql" });
      Object.assign(config, { assets: { directory: "site" } });
    },
    [
      ['wrangler.jsonc: "migrations_dir" of DB is "sql", which does not exist. Correct the path, or make the folder.'],
      ['wrangler.jsonc: "directory" of "assets" is "site", which does not exist. Correct the path, or make the folder.'],
    ],
  ],
  [
    "a site that hides the engine's paths",
    (config) => Object.assign(config, { assets: { directory: "migrations", not_found_handling: "single-page-application" } }),
    [
      [
        'wrangler.jsonc: "not_found_handling" of "assets" answers the engine\'s paths with a page. Add to "assets":',
        '"run_worker_first": ["/v1/*","/console","/console/*","!/console/assets/*","/healthz","/metrics","/openapi.json","/problems/*"]',
      ],
    ],
  ],
  [
    "two bindings of one name",
    (config) => config.d1_databases.push({ binding: "DB", database_name: "other" }),
    [['wrangler.jsonc has the binding DB in "d1_databases" twice. Remove one of them.']],
  ],
  [
    "a cron trigger that is not for each minute",
    (config) => Object.assign(config, { triggers: { crons: ["*/2 * * * *"] } }),
    [
      [
        "wrangler.jsonc has no cron trigger for each minute: schedules do not start, and the keeper does not restart. Set:",
        '"triggers": { "crons": ["*/2 * * * *","* * * * *"] }',
      ],
    ],
  ],
  [
    "the class of an error that the sources throw, without the error's text",
    (_, folder) => writeFileSync(join(folder, "worker.ts"), 'throw new TypeError("The key sk_live_1 is wrong.");'),
    [["The sources cannot be loaded: they throw a TypeError (worker.ts:1). To see its text, run: npx millrace dev"]],
  ],
  [
    "a missing compatibility flag",
    (config) => config.compatibility_flags.splice(1, 1),
    [
      [
        "wrangler.jsonc lacks the compatibility flag global_fetch_strictly_public: a webhook to a host of your own zone bypasses the zone's rules. Set:",
        flags,
      ],
    ],
  ],
  [
    "no limits",
    (config) => Object.assign(config, { limits: undefined }),
    [
      [
        "wrangler.jsonc leaves the limits at their defaults: an instance ends after 10,000 calls, and a replay after 30 s of CPU. Set:",
        '"limits": { "subrequests": 10000000, "cpu_ms": 300000 }',
      ],
    ],
  ],
  [
    "no cron trigger",
    (config) => Object.assign(config, { triggers: undefined }),
    [
      [
        "wrangler.jsonc has no cron trigger for each minute: schedules do not start, and the keeper does not restart. Set:",
        '"triggers": { "crons": ["* * * * *"] }',
      ],
    ],
  ],
  [
    "an old compatibility date",
    (config) => Object.assign(config, { compatibility_date: "2025-01-01" }),
    [
      [
        "wrangler.jsonc has the compatibility date 2025-01-01. The engine is tested from 2026-10-01 on. Set:",
        '"compatibility_date": "2026-10-01"',
      ],
    ],
  ],
  [
    "a bucket that two environments share",
    (config) =>
      Object.assign(config, {
        env: {
          staging: {
            ...{ ...resources("staging-"), vars: { QUEUE_PREFIX: "staging-" }, r2_buckets: resources().r2_buckets },
            exports: { Runs: { type: "workflow", name: "shop-staging-runs" } },
          },
        },
      }),
    [
      [
        'wrangler.jsonc: the top level and "staging" share the R2 bucket "shop-payloads". ' +
          'Give it another name in "staging", such as "staging-shop-payloads".',
      ],
    ],
  ],
])(
  "doctor reports %s",
  async (_, breaks, findings) => {
    expect(await examined(greeter(breaks), new Account())).toEqual({ code: 1, findings });
  },
  60_000,
);

it.each(["*/1 * * * *", "0-59 * * * *", " *  * 1-31 * SUN-SAT "])(
  "doctor accepts %s as a cron trigger for each minute",
  async (cron) => {
    const folder = greeter((config) => Object.assign(config, { triggers: { crons: [cron] } }));
    expect(await examined(folder, new Account())).toEqual({ code: 0, findings: [] });
  },
  60_000,
);

it("doctor reports two copies of a package", async () => {
  const folder = greeter((_, at) => {
    rmSync(join(at, "node_modules"));
    mkdirSync(join(at, "node_modules/zod"), { recursive: true });
    for (const name of readdirSync(join(ROOT, "node_modules")))
      if (name !== "zod") symlinkSync(join(ROOT, "node_modules", name), join(at, "node_modules", name));
    const { version } = JSON.parse(readFileSync(join(ROOT, "node_modules/zod/package.json"), "utf8")) as { version: string };
    writeFileSync(join(at, "node_modules/zod/package.json"), JSON.stringify({ name: "zod", version, exports: "./index.js" }));
    writeFileSync(join(at, "node_modules/zod/index.js"), `export * from "${join(ROOT, "node_modules/zod/index.js")}";`);
  });
  const { code, findings } = await examined(folder, new Account());
  expect(code).toBe(1);
  expect(findings).toEqual([[expect.stringContaining("There are two copies of zod:"), expect.stringContaining("npm dedupe zod")]]);
  writeFileSync(join(folder, "pnpm-lock.yaml"), "");
  const [[, line] = []] = (await examined(folder, new Account())).findings;
  expect(line).toMatch(/^pnpm add zod@\S+ && pnpm dedupe$/);
}, 60_000);

it("doctor names the environments that it has not examined", async () => {
  const folder = greeter((config) => Object.assign(config, { env: { staging: {}, production: {} } }));
  const whole = await millrace(folder, new Account(), ["doctor"]);
  expect(whole.said).toContain("Examine its environment: npx millrace doctor --env staging. The others: production.");
  expect((await millrace(folder, new Account(), ["doctor", "--env", "staging"])).said).not.toContain("Examine its environment");
}, 60_000);

it("doctor lists all resources that a deployment would create in the account", async () => {
  const account = await new Account().start();
  const { code, findings } = await examined(greeter(), account, "--remote", "--url", `${account.url}/worker/shop`);
  expect(code).toBe(1);
  expect(findings).toEqual([
    ['The account has no Worker "shop".', "npx millrace deploy"],
    ["The account has no D1 database: shop.", "npx millrace deploy"],
    ["The account has no bucket: shop-payloads.", "npx millrace deploy"],
    ["The account has no queue: millrace, millrace-dlq.", "npx millrace deploy"],
    ["The account has no Workflow: shop-runs.", "npx millrace deploy"],
    ["The deployed database lacks 2 migrations: 0001_millrace.sql, 0001_orders.sql.", "npx millrace deploy"],
  ]);
  expect(account.asked.every(({ method }) => method === "GET")).toBe(true);
}, 60_000);

it("doctor reports missing resources of a deployed engine", async () => {
  const account = await new Account().start();
  // Wrangler also bundles the packages that this repository does not build.
  const folder = greeter((config) => Object.assign(config, { main: "worker.js" }));
  const at = ["--url", `${account.url}/worker/shop`];
  expect(await millrace(folder, account, ["deploy", ...at])).toMatchObject({ code: 0 });
  expect(await examined(folder, account, "--remote", ...at)).toEqual({ code: 0, findings: [] });
  account.scripts.get("shop")?.secrets.delete("MILLRACE_KEY");
  Object.assign(account.scripts.get("shop") ?? {}, { crons: [] });
  account.queues.set("millrace-dlq", { consumers: [] });
  for (const consumer of account.queues.get("millrace")?.consumers ?? []) delete consumer.dead_letter_queue;
  writeFileSync(join(folder, "migrations/0002_more.sql"), "CREATE TABLE more (id TEXT);");
  expect(await examined(folder, account, "--remote", ...at)).toEqual({
    code: 1,
    findings: [
      ["The deployed database lacks 1 migration: 0002_more.sql.", "npx millrace deploy"],
      ['The Worker "shop" has no secret MILLRACE_KEY.', "npx millrace deploy"],
      ['The account has no dead-letter queue "millrace-dlq" for the queue "millrace".', "npx millrace deploy"],
      ['The account delivers the queue "millrace-dlq" to no Worker.', "npx millrace deploy"],
      ['The deployed Worker "shop" has no cron trigger.', "npx millrace deploy"],
      [`${account.url}/worker/shop/healthz answers 500: MILLRACE_KEY is not set.`, `curl ${account.url}/worker/shop/healthz`],
    ],
  });
}, 120_000);

it("doctor reports a placeholder for the database's id before a deployment", async () => {
  const folder = greeter((config) => {
    config.d1_databases = [{ binding: "DB", database_name: "shop", database_id: "00000000-0000-0000-0000-000000000000" } as never];
  });
  const account = await new Account().start();
  expect(await examined(folder, account, "--remote")).toEqual({
    code: 1,
    findings: [
      [
        "wrangler.jsonc: the database_id of DB is a placeholder. Remove it: a deployment finds the database by its name. The line is then:",
        '{ "binding": "DB", "database_name": "shop" }',
      ],
    ],
  });
}, 60_000);
