import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";
import { clone, Terminal } from "./npm-start.ts";

it("the first hour from a clone to a page succeeds, and each error is reported in one sentence while the engine continues", async () => {
  const port = await freePort();
  const began = Date.now();
  const folder = clone({ isBuilt: false });
  const terminal = new Terminal(folder, port);
  const welcome = await terminal.says("Stop ");
  const times: [string, number][] = [["it runs", Date.now() - began]];

  // Runs the printed command verbatim. The token is never printed: the link to the console has a single-use code.
  const token = readFileSync(join(folder, ".millrace/token"), "utf8").trim();
  expect(welcome).not.toContain(token);
  expect(welcome).toMatch(/http:\/\/\S+\/console#code=\S+/);
  const curl = /^ {2}(curl \S+\/v1\/commands[\s\S]*?')$/m.exec(welcome)?.[1] ?? "";
  expect(JSON.parse(execFileSync("sh", ["-c", `${curl} -s`], { cwd: folder, encoding: "utf8" }))).toMatchObject({
    correlation_id: "my-first-job",
    replayed: false,
  });
  const [page = ""] = /http\S+\/pages\/\S+/.exec(welcome) ?? [];
  const isRead = () => expect.poll(async () => (await fetch(page)).text(), { timeout: 60_000 }).toContain("Cold brew");
  await isRead();
  times.push(["a page was served", Date.now() - began]);

  const mistakes: [string, string, string, string, string][] = [
    [
      "a syntax error",
      "src/workflows/plan-cycle.ts",
      "export const",
      "exprt const",
      'src/workflows/plan-cycle.ts:10 does not compile: Expected ";" but found "const"',
    ],
    [
      "an event with two entries in the routes",
      "src/consumers/brand-events.ts",
      "on(BrandAudited),",
      "on(BrandAudited), on(BrandAudited),",
      '"brand.audited" has two entries in routes: put all its targets into one on(…).',
    ],
    [
      "an event without a route",
      "src/consumers/brand-events.ts",
      "on(BrandAudited),",
      "",
      'The event "brand.audited" (src/messages/brand.ts) has no route: each would become a dead letter. Add to routes in src/consumers/brand-events.ts: on(BrandAudited), which declares it without a target.',
    ],
  ];
  for (const [what, file, right, wrong, sentence] of mistakes) {
    const { took, meanwhile } = await terminal.mistake(file, right, wrong, sentence);
    times.push([what, took]);
    if (!meanwhile.includes("The Worker runs anyway.")) {
      expect(meanwhile).toContain("The previous version keeps running");
      expect(meanwhile, what).not.toContain("loaded anew");
    }
  }
  await isRead();
  expect(terminal.said).not.toContain("starting again");
  expect(await terminal.end()).toBe(0);
  console.info(times.map(([what, ms]) => `${(ms / 1000).toFixed(1).padStart(6)} s  ${what}`).join("\n"));
});
