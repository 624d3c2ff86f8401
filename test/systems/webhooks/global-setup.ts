import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    receiverUrl: string;
  }
}

/** One receiver for all test files; each test uses its own hooks. */
export default async function setup(project: TestProject): Promise<() => void> {
  const ledger = join(mkdtempSync(join(tmpdir(), "millrace-receiver-")), "ledger.jsonl");
  const child = spawn(process.execPath, [join(import.meta.dirname, "receiver.ts"), "--ledger", ledger], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const port = await new Promise<number>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`The receiver ended with ${code}.`)));
    child.stdout.once("data", (line) => resolve(JSON.parse(String(line)).port));
  });
  project.provide("receiverUrl", `http://127.0.0.1:${port}`);
  return () => void child.kill();
}
