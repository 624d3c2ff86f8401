import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";
import { groupOf } from "../../packages/millrace/cli/local/processes.ts";

const ROOT = join(import.meta.dirname, "../..");

/** Runs `npm run demo` without a terminal until it exits. */
function startDemo(...args: string[]) {
  const child = spawn(process.execPath, ["demo/run.ts", ...args], { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGTERM"));
  return child;
}

it("the demo shows the brand's decisions, the kill, the refused page, the retry and the check of the effects", async () => {
  const child = startDemo();
  const [out, err, [status]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  expect(err).toBe("");
  expect(status, out).toBe(0);
  expect(out).not.toContain("\u001b[");
  expect(out).toMatch(/kill -9 after [\d.]+ s, restarted after [\d.]+ s/);
  // The kill may hit the request for the page: then the request is sent, and refused, again.
  expect(out).toMatch(/errored: “put page” failed (once|\d times)/);
  expect(out).toContain("11 of 12 instances are complete");
  for (const line of [
    "1  brand.cycle",
    "3  searches paid for",
    "6  texts paid for",
    "3  pages put up",
    "3  posts made",
    "3  social.posted",
    "The cycle “first” is done, and brand.cycle_ended was sent once: 3 published, 0 rejected, 0 failed, 0 skipped.",
  ])
    expect(out).toContain(line);
  expect(out.match(/^ {2}200 {2}http:\/\/localhost:\d+\/pages\/acme\//gm)).toHaveLength(3);
  expect(out.match(/skipped {4}The keyword has a published article\./g)).toHaveLength(3);
  expect(out).toMatch(/“moka pot” no longer counts as on its way: its instance is errored/);
  expect(out).toMatch(/oat milk +held .*\n.*oat milk +resumed +There is room again/);
  expect(out).toMatch(/moka pot +reused/);
  for (const place of ["site shop    published", "mastodon     posted", "x            in_doubt", "x            posted"])
    expect(out).toContain(place);
  expect(out).toContain("✓ Every effect happened once");
  // `npm start` suggests a command and the URL of its page.
  const promised = /\{url\}(\/pages\S+)/.exec(readFileSync(join(ROOT, "package.json"), "utf8"))?.[1];
  expect(out).toContain(`${promised}  Cold brew: what to know before you start`);
});

it.each([
  [["crm"], 'The demo takes no "crm". Usage: npm run demo -- [--port <number>] [--exit].'],
  [["9155"], 'The demo takes no "9155". Set the port with: npm run demo -- --port 9155 Usage'],
  [["--halp"], 'There is no option "--halp". Usage: npm run demo -- [--port <number>] [--exit].'],
  [["--port", "http"], '"http" is not a port. Choose one from 1 to 65535, such as: npm run demo -- --port 9000'],
])("the demo with %s starts nothing, and prints its usage", async (args, said) => {
  const child = startDemo(...args);
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  expect(err).toContain(said);
  expect(out).toBe("");
  expect(code).toBe(2);
});

it("Ctrl-C in the middle of the demo leaves no process running", async () => {
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
