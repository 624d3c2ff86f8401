import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startEngine } from "../packages/millrace/cli/local/engine-process.ts";
import { freePort } from "../packages/millrace/cli/local/ports.ts";
import { numberOption, readOptions } from "../packages/millrace/cli/options.ts";

// Run with `npm run bench:budgets`. Sends concurrent HTTP requests for one busy account and several quiet accounts. One request in five
// repeats an earlier request. `-- --json` prints the results as one JSON object at the end.

const USAGE = "Usage: npm run bench:budgets -- [--asks 10000] [--json]. --asks sets the number of requests; --json prints one object last.";
const { values } = readOptions(USAGE, {
  options: { json: { type: "boolean", default: false }, asks: { type: "string", default: "10000" } },
});
const ASKS = numberOption(USAGE, "asks", values.asks, { least: 1 });
/** Parallel connections. */
const IN_FLIGHT = 250;
const LIMIT = 100_000;
const ACCOUNTS = ["hot", "quiet-1", "quiet-2", "quiet-3"] as const;

type Account = (typeof ACCOUNTS)[number];

const folder = join(import.meta.dirname, "..", ".millrace", "bench-budgets");
mkdirSync(folder, { recursive: true });
const secrets = join(folder, "secrets");
writeFileSync(secrets, "MILLRACE_KEY=bench\n");

const { url, token, stop } = await startEngine({ folder, port: await freePort(), secrets, fresh: true });
try {
  for (const account of ACCOUNTS) await ask("PUT", account, { limit_cents: LIMIT });
  const result = await measure();
  console.log(
    `${ASKS} requests, ${IN_FLIGHT} concurrent\n  ${result.budget_asks_per_second}/s · ${result.granted} granted · ${result.budget_oversold} cents oversold`,
  );
  if (values.json) console.log(JSON.stringify(result));
  if (result.budget_oversold > 0) process.exitCode = 1;
} finally {
  await stop();
}

async function measure() {
  const asks = Array.from({ length: ASKS }, (_, index) => {
    const key = index % 5 === 4 ? Math.floor(index / 3) : index;
    const account: Account = key % 10 < 7 ? "hot" : (ACCOUNTS[1 + (key % 3)] ?? "hot");
    return { account, key: `key-${key}`, amount_cents: 1 + ((key * 7919) % 97) };
  });
  const granted = new Map<string, (typeof asks)[number]>();
  const began = performance.now();
  const waiting = asks.values();
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async () => {
      for (const one of waiting) {
        const answer = await ask("POST", `${one.account}/asks`, { amount_cents: one.amount_cents }, one.key);
        if (answer.granted) granted.set(`${one.account} ${one.key}`, one);
      }
    }),
  );
  const seconds = (performance.now() - began) / 1000;
  let budget_oversold = 0;
  for (const account of ACCOUNTS) {
    const total = [...granted.values()].reduce((sum, one) => sum + (one.account === account ? one.amount_cents : 0), 0);
    const { held_cents } = await ask("GET", account);
    if (held_cents !== total) throw new Error(`Account ${account} holds ${held_cents} cents, but granted ${total}.`);
    budget_oversold += Math.max(0, total - LIMIT);
  }
  return { budget_oversold, budget_asks_per_second: Math.round(ASKS / seconds), granted: granted.size };
}

async function ask(method: string, path: string, body?: object, key?: string) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", ...(key && { "idempotency-key": key }) };
  const answer = await fetch(`${url}/v1/budgets/${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${(await answer.text()).slice(0, 300)}`);
  return (await answer.json()) as { granted: boolean; held_cents: number };
}
