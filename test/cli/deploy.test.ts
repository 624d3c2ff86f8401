import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";
import { readConfig } from "../../packages/millrace/cli/wiring/config.ts";
import { Account } from "./account/account.ts";
import { configuration, deploy, killedAt, limited, millrace, refusing, resources, shop } from "./account/shop.ts";

/** The resources of an account, without ids and versions. */
function contents({ databases, buckets, queues, workflows, scripts }: Account) {
  return {
    databases: [...databases].map(([name, { location, sqlite }]) => ({
      ...{ name, location, engine: sqlite.prepare("SELECT name FROM millrace_migrations ORDER BY name").all() },
      tables: sqlite.prepare("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name").all(),
      migrations: sqlite.prepare("SELECT name FROM d1_migrations ORDER BY name").all(),
    })),
    buckets: [...buckets],
    queues: [...queues].sort().map(([name, { consumers }]) => ({ name, consumers })),
    workflows: [...workflows],
    scripts: [...scripts].map(([name, { bindings, secrets, crons }]) => ({
      ...{ name, crons, bindings: [...bindings.keys()].sort(), secrets: [...secrets.keys()] },
    })),
  };
}

it("deploy sets up an engine in an empty account with one command, and changes only the version the second time", async () => {
  const account = await new Account().start();
  const folder = shop();
  const first = await millrace(folder, account, deploy(account, "--location", "weur"));
  expect(first).toMatchObject({ code: 0, said: expect.stringContaining("Runs at") });
  expect(account.unknown).toEqual([]);
  process.stderr.write(
    `deploy: 1 command, 0 steps by hand, ${account.asked.length} API requests; ${/after [\d.]+ s/.exec(first.said)?.[0]}\n`,
  );
  const made = contents(account);
  expect(made).toMatchObject({
    databases: [{ name: "shop", location: "weur", engine: [{ name: "0001_millrace.sql" }], migrations: [{ name: "0001_orders.sql" }] }],
    buckets: ["shop-payloads"],
    queues: [
      { name: "millrace", consumers: [{ script: "shop", dead_letter_queue: "millrace-dlq" }] },
      { name: "millrace-dlq", consumers: [{ script: "shop" }] },
    ],
    workflows: [["shop-runs", { script_name: "shop" }]],
    scripts: [{ name: "shop", crons: [{ cron: "* * * * *" }], bindings: ["DB", "MILLRACE_QUEUE", "PAYLOADS"], secrets: ["MILLRACE_KEY"] }],
  });
  const key = account.scripts.get("shop")?.secrets.get("MILLRACE_KEY") ?? "";
  expect(Buffer.from(key, "base64url")).toHaveLength(32);
  expect(first.said).not.toContain(key);
  expect(readdirSync(join(folder, ".millrace"))).not.toContain("secrets.json");

  account.reset();
  const second = await millrace(folder, account, deploy(account));
  expect(second).toMatchObject({ code: 0, said: expect.stringMatching(/keep {4}MILLRACE_KEY.*npx wrangler rollback/s) });
  process.stderr.write(`deploy again: ${account.asked.length} API requests; ${/after [\d.]+ s/.exec(second.said)?.[0]}\n`);
  expect(contents(account)).toEqual(made);
  expect(account.scripts.get("shop")).toMatchObject({ versions: 2 });
  expect(account.scripts.get("shop")?.secrets.get("MILLRACE_KEY")).toBe(key);
  expect(account.asked.filter(({ method, path }) => method === "POST" && !/query|subdomain/.test(path))).toEqual([]);
}, 120_000);

it("deploy creates and migrates the database of each cell, and a cell that is added later", async () => {
  const account = await new Account().start();
  const cells = (count: number) => ({
    ...configuration(),
    vars: { CELLS: count },
    d1_databases: ["", "_2", "_3"].slice(0, count).map((cell) => ({ binding: `DB${cell}`, database_name: `shop${cell}` })),
  });
  const applied = () => contents(account).databases.map(({ name, engine, migrations }) => [name, engine.length, migrations.length]);
  expect(await millrace(shop(cells(2)), account, deploy(account))).toMatchObject({ code: 0 });
  expect(applied()).toEqual([
    ["shop", 1, 1],
    ["shop_2", 1, 1],
  ]);
  const folder = shop(cells(3));
  const { said } = await millrace(folder, account, deploy(account, "--dry-run"));
  expect(said).toMatch(/create {2}D1 databases of further cells: shop_3\n.*keep {4}D1 databases of further cells: shop_2\n/s);
  expect(await millrace(folder, account, deploy(account))).toMatchObject({ code: 0 });
  expect(applied()).toContainEqual(["shop_3", 1, 1]);
}, 180_000);

it("deploy --dry-run reads the account and changes nothing", async () => {
  const account = await new Account().start();
  const { code, said } = await millrace(shop(), account, deploy(account, "--dry-run"));
  expect(code).toBe(0);
  expect(said).toContain("create  queues: millrace, millrace-dlq");
  expect(said).toContain("apply   2 migrations: 0001_millrace.sql, 0001_orders.sql");
  expect(account.asked.filter(({ method }) => method !== "GET")).toEqual([]);
}, 60_000);

it("deploy plans all resources that this repository's app needs", async () => {
  const account = await new Account().start();
  const { code, said } = await millrace(ROOT, account, deploy(account, "--dry-run"));
  const config = readConfig(join(ROOT, "wrangler.jsonc")) as { queues: { consumers: { queue: string }[] }; workflows: { name: string }[] };
  const named = (what: string) => new RegExp(`create {2}${what}: (.*)`).exec(said)?.[1]?.split(", ").sort();
  expect(code).toBe(0);
  expect(named("queues")).toEqual(config.queues.consumers.map(({ queue }) => queue).sort());
  expect(named("Workflows")).toEqual(config.workflows.map(({ name }) => name).sort());
  expect(named("R2 buckets")).toEqual(["millrace-pages", "millrace-payloads"]);
}, 60_000);

it.each([
  ["a queue", /^POST \/queues$/],
  ["a migration", /^POST \/d1\/database\/.*\/query$/],
  ["the upload", /^PUT \/workers\/scripts\/shop$/],
  ["a Workflow", /^PUT \/workflows/],
])(
  "deploy reaches the same state when it was killed after %s, and sets MILLRACE_KEY once",
  async (_, request) => {
    const account = await new Account().start();
    const folder = shop();
    expect(await killedAt(folder, account, deploy(account), request)).toBe(true);
    expect(readdirSync(join(folder, ".millrace"))).not.toContain("secrets.json");
    const key = account.scripts.get("shop")?.secrets.get("MILLRACE_KEY");
    expect(await millrace(folder, account, deploy(account))).toMatchObject({ code: 0 });
    const { secrets } = account.scripts.get("shop") ?? {};
    expect(secrets?.get("MILLRACE_KEY")).toMatch(/^[\w-]{43}$/);
    if (key !== undefined) expect(secrets?.get("MILLRACE_KEY")).toBe(key);
    expect(contents(account)).toMatchObject({
      databases: [{ name: "shop", engine: [{ name: "0001_millrace.sql" }], migrations: [{ name: "0001_orders.sql" }] }],
      buckets: ["shop-payloads"],
      queues: [{ consumers: [{ script: "shop", dead_letter_queue: "millrace-dlq" }] }, { consumers: [{ script: "shop" }] }],
      workflows: [["shop-runs", { script_name: "shop" }]],
      scripts: [{ crons: [{ cron: "* * * * *" }], secrets: ["MILLRACE_KEY"] }],
    });
  },
  120_000,
);

const paid = { status: 403, code: 11003, message: "Queues is not enabled for this account" };

it("deploy reports the missing plan and permission when Queues are refused, and creates nothing", async () => {
  const account = await new Account().start();
  account.refuse = refusing(/queues/, paid);
  const { code, said } = await millrace(shop(), account, deploy(account));
  expect(code).toBe(1);
  expect(said).toContain("Cloudflare refuses to read the queues: Queues is not enabled for this account (code 11003).");
  expect(said).toContain("Millrace needs the Workers Paid plan");
  expect(contents(account)).toMatchObject({ databases: [], queues: [], scripts: [] });
}, 60_000);

it("deploy waits for the time that Cloudflare requests when it limits the rate", async () => {
  const account = await new Account().start();
  account.refuse = refusing(/^POST \/queues$/, limited, 2);
  expect(await millrace(shop(), account, deploy(account))).toMatchObject({ code: 0, said: expect.stringContaining("Waiting 0 s") });
  expect([...account.queues.keys()]).toEqual(["millrace", "millrace-dlq"]);
}, 60_000);

it("deploy prints an instruction to run the same command again when Cloudflare rate-limits the upload, and the second run succeeds", async () => {
  const account = await new Account().start();
  const folder = shop();
  account.refuse = refusing(/^PUT \/workers\/scripts/, limited);
  const { code, said } = await millrace(folder, account, deploy(account));
  expect([code, said]).toEqual([1, expect.stringMatching(/Could not deploy the Worker:.*throttling.*Run the same command again/)]);
  account.refuse = () => undefined;
  expect(await millrace(folder, account, deploy(account))).toMatchObject({ code: 0 });
}, 60_000);

it("deploy shares no resource between two environments of one account", async () => {
  const account = await new Account().start();
  const staging = { ...resources("staging-"), vars: { QUEUE_PREFIX: "staging-" } };
  const runs = { ...configuration().exports, Runs: { type: "workflow", name: "shop-staging-runs" } };
  const folder = shop({ ...configuration(), env: { staging: { ...staging, exports: runs } } });
  expect(await millrace(folder, account, deploy(account))).toMatchObject({ code: 0 });
  const key = account.scripts.get("shop")?.secrets.get("MILLRACE_KEY");
  const second = await millrace(folder, account, ["deploy", "--env", "staging", "--url", `${account.url}/worker/shop-staging`]);
  expect(second).toMatchObject({ code: 0, said: expect.stringContaining("npx wrangler rollback --env staging") });
  const owners = [...account.queues].map(([name, { consumers }]) => [name, consumers.map(({ script }) => script)]);
  expect(Object.fromEntries(owners)).toEqual({
    ...{ millrace: ["shop"], "millrace-dlq": ["shop"] },
    ...{ "staging-millrace": ["shop-staging"], "staging-millrace-dlq": ["shop-staging"] },
  });
  expect([...account.databases.keys()]).toEqual(["shop", "staging-shop"]);
  expect([...account.workflows].map(([name, { script_name }]) => [name, script_name])).toEqual([
    ["shop-runs", "shop"],
    ["shop-staging-runs", "shop-staging"],
  ]);
  expect(account.scripts.get("shop-staging")?.secrets.get("MILLRACE_KEY")).not.toBe(key);
}, 120_000);

it("deploy calls only the account of the environment, also for the engine's migrations", async () => {
  const account = await new Account().start();
  const staging = { ...resources("staging-"), vars: { QUEUE_PREFIX: "staging-" }, account_id: "accstag" };
  const runs = { ...configuration().exports, Runs: { type: "workflow", name: "shop-staging-runs" } };
  const folder = shop({ ...configuration(), account_id: "accprod", env: { staging: { ...staging, exports: runs } } });
  const { code } = await millrace(folder, account, ["deploy", "--env", "staging", "--url", `${account.url}/worker/shop-staging`]);
  expect(code).toBe(0);
  expect([...account.databases.keys()]).toEqual(["staging-shop"]);
  expect(account.asked.filter(({ account: id }) => id !== undefined && id !== "accstag")).toEqual([]);
}, 120_000);

it.each([
  [
    "a queue",
    (account: Account) => account.queues.set("millrace", { consumers: [{ script: "other" }] }),
    'The queue "millrace" belongs to',
  ],
  ["a Workflow", (account: Account) => account.workflows.set("shop-runs", { script_name: "other" }), 'The Workflow "shop-runs" belongs to'],
])(
  "deploy does not take over %s of another Worker",
  async (_, prepare, says) => {
    const account = await new Account().start();
    prepare(account);
    expect(await millrace(shop(), account, deploy(account))).toMatchObject({ code: 1, said: expect.stringContaining(says) });
    expect(account.asked.filter(({ method }) => method !== "GET")).toEqual([]);
  },
  60_000,
);

it.each([
  [
    "a placeholder",
    { d1_databases: [{ binding: "DB", database_name: "shop", database_id: "00000000-0000-0000-0000-000000000000" }] },
    "is the placeholder",
  ],
  ["another required secret", { secrets: { required: ["MILLRACE_KEY", "STRIPE_KEY"] } }, "STRIPE_KEY. Write them to a file"],
])(
  "deploy prints an instruction about %s",
  async (_, change, says) => {
    const account = await new Account().start();
    const { code, said } = await millrace(shop({ ...configuration(), ...change }), account, deploy(account));
    expect([code, said]).toEqual([1, expect.stringContaining(says)]);
    expect(account.scripts.size).toBe(0);
  },
  60_000,
);

const stagingWith = (change: object) => {
  const runs = { ...configuration().exports, Runs: { type: "workflow", name: "shop-staging-runs" } };
  return { staging: { ...resources("staging-"), vars: { QUEUE_PREFIX: "staging-" }, exports: runs, ...change } };
};
const id = "0f0f0f0f-1111-4222-8333-444444444444";

it.each<[string, object, string[], string]>([
  [
    "two environments share a bucket",
    { env: stagingWith({ r2_buckets: resources().r2_buckets }) },
    ["--env", "staging"],
    'the top level and "staging" share the R2 bucket "shop-payloads"',
  ],
  [
    "two environments share a database_id under two names",
    {
      d1_databases: [{ binding: "DB", database_name: "shop", database_id: id }],
      env: stagingWith({ d1_databases: [{ binding: "DB", database_name: "staging-shop", database_id: id }] }),
    },
    [],
    `share the D1 database "${id}". Give it another database_id in "staging"`,
  ],
  ["two environments share a Worker", { env: stagingWith({ name: "shop" }) }, [], 'share the Worker "shop"'],
  ["vars have MILLRACE_KEY", { vars: { MILLRACE_KEY: "an-old-key-of-32-characters-long" } }, [], "has the secret MILLRACE_KEY in"],
  [
    "vars contain a required secret other than MILLRACE_KEY",
    { secrets: { required: ["MILLRACE_KEY", "STRIPE_KEY"] }, vars: { STRIPE_KEY: "none" } },
    [],
    "has the secret STRIPE_KEY in",
  ],
])(
  "deploy changes nothing in this case: %s",
  async (_, change, options, says) => {
    const account = await new Account().start();
    const { code, said } = await millrace(shop({ ...configuration(), ...change }), account, deploy(account, ...options));
    expect([code, said]).toEqual([1, expect.stringContaining(says)]);
    expect(said).toContain("Nothing is deployed.");
    expect(account.asked).toEqual([]);
  },
  60_000,
);

it("deploy changes nothing when a declared class is not exported by the Worker", async () => {
  const account = await new Account().start();
  const { exports } = configuration();
  const folder = shop({ ...configuration(), exports: { ...exports, Lock: exports.Keeper } });
  const { code, said } = await millrace(folder, account, deploy(account));
  expect([code, said]).toEqual([1, expect.stringMatching(/the Durable Object Lock, which is not exported.*Nothing is deployed/s)]);
  expect(account.asked).toEqual([]);
}, 60_000);

it("deploy creates no new MILLRACE_KEY while the database has instances", async () => {
  const account = await new Account().start();
  const folder = shop();
  await millrace(folder, account, deploy(account));
  account.databases
    .get("shop")
    ?.sqlite.exec("DROP TABLE millrace_instances; CREATE TABLE millrace_instances (id TEXT); INSERT INTO millrace_instances VALUES ('a')");
  account.scripts.delete("shop");
  const { code, said } = await millrace(folder, account, deploy(account));
  expect([code, said]).toEqual([1, expect.stringContaining("A new key would repeat effects")]);
}, 60_000);

it("deploy refuses a database that was deployed with another Worker, and accepts it with --take-database", async () => {
  const account = await new Account().start();
  expect(await millrace(shop(), account, deploy(account))).toMatchObject({ code: 0 });
  const config = configuration();
  const exports = { ...config.exports, Runs: { type: "workflow", name: "other-runs" } };
  const queues = resources("other-").queues;
  const folder = shop({ ...config, name: "other", exports, queues, vars: { QUEUE_PREFIX: "other-" } });
  const other = ["deploy", "--url", `${account.url}/worker/other`];
  const { code, said } = await millrace(folder, account, other);
  expect([code, said]).toEqual([1, expect.stringContaining('The database "shop" belongs to the Worker "shop".')]);
  expect([account.scripts.has("other"), account.queues.has("other-millrace")]).toEqual([false, false]);
  expect(await millrace(folder, account, [...other, "--take-database"])).toMatchObject({ code: 0 });
  expect(account.databases.get("shop")?.sqlite.prepare("SELECT name FROM millrace_worker").all()).toEqual([{ name: "other" }]);
}, 120_000);

it("deploy keeps the MILLRACE_KEY that a concurrent first deployment sets after the plan", async () => {
  const account = await new Account().start();
  const key = "the-key-of-the-other-deployment";
  account.before = ({ method, path }) => {
    if (method === "POST" && path === "/queues" && !account.scripts.has("shop"))
      account.scripts.set("shop", { bindings: new Map(), secrets: new Map([["MILLRACE_KEY", key]]), versions: 1, crons: [] });
  };
  expect(await millrace(shop(), account, deploy(account))).toMatchObject({ code: 0 });
  expect(account.scripts.get("shop")).toMatchObject({ versions: 2 });
  expect(account.scripts.get("shop")?.secrets.get("MILLRACE_KEY")).toBe(key);
}, 60_000);

it("deploy stops when another deployment creates the database after the plan, and a second run succeeds", async () => {
  const account = await new Account().start();
  const folder = shop();
  const exists = { status: 400, code: 7502, message: "A database named 'shop' already exists." };
  account.refuse = refusing(/^POST \/d1\/database$/, exists, 1);
  const { code, said } = await millrace(folder, account, deploy(account));
  expect([code, said]).toEqual([1, expect.stringContaining('The database "shop" exists by now: the plan is out of date.')]);
  expect([account.queues.size, account.scripts.size]).toEqual([0, 0]);
  expect(await millrace(folder, account, deploy(account))).toMatchObject({ code: 0 });
}, 60_000);

it("a remote migration is refused while a deployment from the same folder runs", async () => {
  const account = await new Account().start();
  const folder = shop();
  let second: ReturnType<typeof millrace> | undefined;
  account.before = async ({ method, path }) => {
    if (method !== "POST" || path !== "/queues" || second !== undefined) return;
    second = millrace(folder, account, ["migrate", "--remote", "--yes"]);
    await second;
  };
  expect(await millrace(folder, account, deploy(account))).toMatchObject({ code: 0 });
  expect(await second).toMatchObject({ code: 1, said: expect.stringContaining("Another deployment or remote migration runs in") });
}, 60_000);
