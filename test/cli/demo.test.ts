import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { groupOf } from "../../src/cli/local/processes.ts";
import { startDemo, tellDemo } from "./run-demo.ts";

const ROOT = join(import.meta.dirname, "../..");

it("the demo shows the chain, the outage, the retry and the proof, and ends well within a minute", async () => {
  const out = await tellDemo();
  expect(out).toContain("errored: “put page” failed 3 times");
  expect(out).toContain("10 of 11 instances are complete");
  for (const line of ["3  searches paid for", "3  articles paid for", "3  pages put up", "3  posts made", "3  social.posted"])
    expect(out).toContain(line);
  expect(out.match(/^ {2}200 {2}http:\/\/localhost:\d+\/pages\/acme\//gm)).toHaveLength(3);
  expect(out).toContain("✓ Every effect happened once");
  // `npm start` suggests a command and says where its page will be.
  const promised = /FIRST_PAGE = "(.+)"/.exec(readFileSync(join(ROOT, "src/cli/start.ts"), "utf8"))?.[1];
  expect(out).toContain(`${promised}  Cold brew`);
});

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
  expect(groupOf(engine).length).toBeGreaterThan(2);
  child.kill("SIGINT");
  const [code] = await once(child, "exit");
  expect(code).toBe(130);
  expect(groupOf(engine)).toEqual([]);
});

it("the demo of facts shows them arrive, survive a kill, and come back the same from a rebuild", async () => {
  const out = await tellDemo(["ledger"], 90_000);
  for (const line of [
    "known already, as number 1",
    'Did you mean "payout"?',
    "12 of 12 are known",
    "13 rows were dropped and written again",
  ])
    expect(out).toContain(line);
  expect(out).toMatch(/p50 \d+ ms, p95 \d+ ms/);
  expect(out).toContain("✓ Every fact is there once");
});
