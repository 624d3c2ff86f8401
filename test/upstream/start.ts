import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The upstream, started as a separate process. */
export interface UpstreamProcess {
  url: string;
  stop(): void;
}

/** Starts the upstream, or another program with a ledger, on a free port, by default with a new ledger. */
export function startUpstream(
  ledger = join(mkdtempSync(join(tmpdir(), "millrace-upstream-")), "ledger.jsonl"),
  program = join(dirname(fileURLToPath(import.meta.url)), "server.ts"),
): Promise<UpstreamProcess> {
  const child: ChildProcess = spawn(process.execPath, [program, "--ledger", ledger], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`The upstream ended with ${code}.`)));
    child.stdout?.once("data", (line) => {
      const { port } = JSON.parse(String(line));
      resolve({ url: `http://127.0.0.1:${port}`, stop: () => child.kill() });
    });
  });
}
