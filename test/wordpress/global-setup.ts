import { spawn } from "node:child_process";
import { join } from "node:path";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    wordpressUrl: string;
  }
}

/** One server for all test files; each test uses its own site. */
export default async function setup(project: TestProject): Promise<() => void> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "server.ts")], { stdio: ["ignore", "pipe", "inherit"] });
  const port = await new Promise<number>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`The WordPress of the tests ended with ${code}.`)));
    child.stdout.once("data", (line) => resolve(JSON.parse(String(line)).port));
  });
  project.provide("wordpressUrl", `http://127.0.0.1:${port}`);
  return () => void child.kill();
}
