import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { groupOf } from "../../packages/millrace/cli/local/processes.ts";
import { startDemo, tellDemo } from "./run-demo.ts";

const ROOT = join(import.meta.dirname, "../..");

it("the demo shows the brand's decisions, the kill, the refused page, the retry and the proof", async () => {
  const out = await tellDemo([]);
  expect(out).toMatch(/kill -9 after [\d.]+ s, and started again [\d.]+ s later/);
  // The kill may meet the page on its way: then it is tried, and refused, again.
  expect(out).toMatch(/errored: “put page” failed (once|\d times)/);
  expect(out).toContain("11 of 12 instances are complete");
  for (const line of [
    "1  brand.cycle",
    "3  searches paid for",
    "3  articles paid for",
    "3  pages put up",
    "3  posts made",
    "3  social.posted",
  ])
    expect(out).toContain(line);
  expect(out.match(/^ {2}200 {2}http:\/\/localhost:\d+\/pages\/acme\//gm)).toHaveLength(3);
  expect(out.match(/skipped {4}It has an article that people can read\./g)).toHaveLength(3);
  expect(out).toMatch(/“moka pot” no longer counts as on its way: its instance is errored/);
  expect(out).toMatch(/oat milk +held .*\n.*oat milk +resumed +There is room again/);
  expect(out).toMatch(/moka pot +reused/);
  expect(out).toContain("✓ Every effect happened once");
  // `npm start` suggests a command and says where its page will be.
  const promised = /\{url\}(\/pages\S+)/.exec(readFileSync(join(ROOT, "package.json"), "utf8"))?.[1];
  expect(out).toContain(`${promised}  Cold brew: what to know before you start`);
});

it.each(["nonsense", "Brand", "crm2"])(
  "a name that is no demo's, such as %s, starts nothing and is answered with those there are",
  async (name) => {
    const child = startDemo("--port", "22222", name);
    const [err, [code]] = await Promise.all([text(child.stderr), once(child, "exit")]);
    expect(code).toBe(2);
    expect(err).toContain(`There is no demo “${name}”. There are:`);
    expect(err).toContain("npm run demo -- publish");
  },
);

it.each([["--halp"], ["crm", "--contact", "5"], ["--rows=20"]])(
  "an option that a demo does not have, as in %s, starts nothing and is answered with those there are",
  async (...args) => {
    const child = startDemo(...args);
    const [err, [code]] = await Promise.all([text(child.stderr), once(child, "exit")]);
    expect(code).toBe(2);
    expect(err).toContain(`There is no option "${args.find((arg) => arg.startsWith("-"))}"`);
    expect(err).toContain("[--port <number>]");
  },
);

it("Ctrl-C in the middle leaves nothing running", async () => {
  const child = startDemo();
  let out = "";
  await new Promise<void>((resolve) => {
    child.stdout.on("data", (chunk) => {
      out += chunk;
      if (out.includes("research.requested")) resolve();
    });
  });
  const { engine } = JSON.parse(readFileSync(join(ROOT, ".millrace/demo/lock"), "utf8")) as { engine: number };
  expect(groupOf(engine).length).toBeGreaterThan(1);
  child.kill("SIGINT");
  const [code] = await once(child, "exit");
  expect(code).toBe(130);
  expect(groupOf(engine)).toEqual([]);
});

it("the demo of facts shows them arrive, survive a kill, and come back the same from a rebuild", async () => {
  const out = await tellDemo(["ledger"]);
  for (const line of [
    "known already, as number 1",
    'Did you mean "payout"?',
    "12 of 12 are known",
    "13 rows were held against their ledgers",
  ])
    expect(out).toContain(line);
  expect(out).toMatch(/p50 \d+ ms, p95 \d+ ms/);
  expect(out).toContain("✓ Every fact is there once");
});
