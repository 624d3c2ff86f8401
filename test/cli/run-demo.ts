import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, onTestFinished } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

/** `npm run demo` without a terminal, which ends by itself. */
export function startDemo(...args: string[]): ChildProcessByStdio<null, Readable, Readable> {
  return openDemo(...args, "--exit");
}

/** `npm run demo` without a terminal. */
export function openDemo(...args: string[]): ChildProcessByStdio<null, Readable, Readable> {
  const child = spawn(process.execPath, ["packages/millrace/cli/launch.js", "demo", ...args], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGTERM"));
  return child;
}

/** What a demo says from its start to its end: in good order, with nothing to complain of. How long it may take is the test's own limit. */
export async function tellDemo(args: readonly string[] = []): Promise<string> {
  const child = startDemo(...args);
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  expect(err).toBe("");
  expect(code, out).toBe(0);
  expect(out).not.toContain("\u001b[");
  return out;
}
