import { copyFileSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";
import { Account, type Refused } from "./account/account.ts";
import { deploy, limited, millrace, refusing, shop } from "./account/shop.ts";

it.each([
  ["an empty key", "MILLRACE_KEY=\n", ": MILLRACE_KEY has no value."],
  ["a short key", "MILLRACE_KEY=secret-1\n", ": MILLRACE_KEY must have at least 16 characters."],
  ["a key that is not text", '{ "MILLRACE_KEY": 1234567890123456789 }', ": the value of MILLRACE_KEY is not a text."],
  ["JSON that is not closed", '{\n  "MILLRACE_KEY": "secret-1",\n  "OTHER": secret-2', ":3 is not JSON."],
])(
  "deploy refuses %s in --secrets-file before it calls the account, and shows no value",
  async (_, text, says) => {
    const account = await new Account().start();
    const folder = shop();
    writeFileSync(join(folder, "given"), text);
    const { code, said } = await millrace(folder, account, deploy(account, "--secrets-file", "given"));
    expect([code, said]).toEqual([1, expect.stringContaining(`given${says}`)]);
    expect(said).not.toMatch(/secret-\d|12345/);
    expect(account.asked).toEqual([]);
  },
  60_000,
);

it("deploy finds a database on the second page of the account's list", async () => {
  const account = await new Account().start();
  const many = () => ({ uuid: crypto.randomUUID(), location: undefined, sqlite: new DatabaseSync(":memory:") });
  for (let at = 0; at < 100; at++) account.databases.set(`shop-${at}`, many());
  account.databases.set("shop", many());
  const { code, said } = await millrace(shop(), account, deploy(account, "--dry-run"));
  expect([code, said]).toEqual([0, expect.stringContaining("keep    D1 database: shop")]);
}, 60_000);

it.each<[string, RegExp, Refused, string]>([
  [
    "if R2 is not enabled",
    /^GET \/r2/,
    { status: 403, code: 10042, message: "Please enable R2 through the Cloudflare Dashboard." },
    "Enable R2 in the account: https://dash.cloudflare.com/?to=/:account/r2",
  ],
  [
    "the end of Cloudflare's rate limit",
    /^GET \/queues/,
    { ...limited, retryAfter: "Wed, 01 Jan 2125 00:00:00 GMT" },
    "It limits requests: wait 3",
  ],
  [
    "if the response is an HTML page",
    /^GET \/queues/,
    { status: 200, code: 0, message: "", page: "<html>Sign in</html>" },
    "answers 200 without JSON",
  ],
  [
    "if a queue is refused with 409",
    /^POST \/queues/,
    { status: 409, code: 11012, message: "The account has too many queues." },
    "Cloudflare refuses to create the queue",
  ],
])(
  "deploy reports the error: %s",
  async (_, request, refused, says) => {
    const account = await new Account().start();
    account.refuse = refusing(request, refused);
    const { code, said } = await millrace(shop(), account, deploy(account));
    expect([code, said]).toEqual([1, expect.stringContaining(says)]);
    expect(account.scripts.size).toBe(0);
  },
  60_000,
);

it("deploy reports the remote migration that failed", async () => {
  const account = await new Account().start();
  const folder = shop();
  writeFileSync(join(folder, "migrations/0002_paid.sql"), "ALTER TABLE none ADD COLUMN paid INTEGER;");
  const { code, said } = await millrace(folder, account, deploy(account));
  expect([code, said]).toEqual([
    1,
    expect.stringMatching(/The migration migrations\/0002_paid\.sql is not applied\. Could not .*no such table: none/),
  ]);
}, 60_000);

it("deploy reports wrangler's reason when the login cannot be read", async () => {
  const account = await new Account().start();
  const folder = shop();
  rmSync(join(folder, "node_modules"));
  mkdirSync(join(folder, "node_modules/wrangler/bin"), { recursive: true });
  for (const name of readdirSync(join(ROOT, "node_modules")))
    if (name !== "wrangler") symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
  copyFileSync(join(ROOT, "node_modules/wrangler/package.json"), join(folder, "node_modules/wrangler/package.json"));
  const reason = "The credentials in ~/.wrangler cannot be decrypted.";
  writeFileSync(join(folder, "node_modules/wrangler/bin/wrangler.js"), `console.error("✘ [ERROR] ${reason}"); process.exit(1);`);
  const { code, said } = await millrace(folder, account, deploy(account));
  expect([code, said]).toEqual([1, expect.stringContaining(`Could not read the login: ${reason}`)]);
}, 60_000);

it("deploy prints the command to log in", async () => {
  const account = await new Account().start();
  const folder = shop();
  const { CLOUDFLARE_API_BASE_URL } = account.env;
  const nobody = { CLOUDFLARE_API_BASE_URL, CLOUDFLARE_API_TOKEN: "", HOME: folder, XDG_CONFIG_HOME: folder };
  const { code, said } = await millrace(folder, account, deploy(account), nobody);
  expect([code, said]).toEqual([1, expect.stringContaining("You are not logged in to Cloudflare. Run: npx wrangler login.")]);
}, 60_000);

it.each([
  ["is not installed", undefined, "wrangler is not installed in"],
  ["is too old", "4.90.0", "wrangler 4.90.0 is too old: Millrace needs 4.156.0 or newer."],
])(
  "deploy reports the version to install when wrangler %s",
  async (_, version, says) => {
    const account = await new Account().start();
    const folder = shop();
    rmSync(join(folder, "node_modules"));
    if (version) {
      mkdirSync(join(folder, "node_modules/wrangler"), { recursive: true });
      writeFileSync(join(folder, "node_modules/wrangler/package.json"), JSON.stringify({ name: "wrangler", version }));
    }
    const { code, said } = await millrace(folder, account, deploy(account));
    expect([code, said]).toEqual([1, expect.stringMatching(new RegExp(`${says}.*npm install -D wrangler`, "s"))]);
  },
  60_000,
);
