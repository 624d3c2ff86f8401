import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { askerOf } from "../../packages/millrace/cli/api-client.ts";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";
import { numberOption, readOptions } from "../../packages/millrace/cli/options.ts";
import { ChaosEngine } from "../chaos/engine.ts";
import { folderOf, installing } from "./packages.ts";

// Sends the spans of one chain, from research to the social post, to a real OTLP receiver, and reads the trace from the receiver. If the
// receiver is not installed, the program prints a warning and proves nothing: see packages.ts.

const USAGE = "Usage: npm run e2e:traces -- [--seconds 90]. The time limit of the chain, 10 to 600.";
const { values } = readOptions(USAGE, { options: { seconds: { type: "string", default: "90" } } });
const longestMs = numberOption(USAGE, "seconds", values.seconds, { least: 10, most: 600 }) * 1000;

const PACKAGE = "@genkit-ai/telemetry-server";
const WORKFLOWS = ["research-keyword", "generate-article", "publish-article", "post-to-social"];

/** A span as the receiver returns it. */
interface Kept {
  spanId: string;
  parentSpanId?: string;
  displayName: string;
  startTime: number;
  endTime: number;
}

const receiverFolder = folderOf(PACKAGE);
if (receiverFolder === undefined) {
  console.log(`SKIPPED: ${PACKAGE} is not installed, NOTHING WAS PROVEN. To install it: ${installing([PACKAGE])}`);
  process.exit(0);
}
const folder = mkdtempSync(join(tmpdir(), "millrace-traces-"));
mkdirSync(join(folder, "engine"));
const port = await freePort();
const receiver = spawn(process.execPath, [join(import.meta.dirname, "receiver-process.ts"), receiverFolder, folder, String(port)], {
  stdio: ["ignore", "ignore", "inherit"],
});
const engine = new ChaosEngine(join(folder, "engine"), { vars: { OTLP_ENDPOINT: `http://127.0.0.1:${port}/api/otlp` } });
try {
  process.exitCode = (await run(`http://127.0.0.1:${port}`)) ? 0 : 1;
} finally {
  await engine.end();
  receiver.kill();
  rmSync(folder, { recursive: true, force: true });
}
process.exit();

async function run(url: string): Promise<boolean> {
  await engine.start();
  const traceId = randomBytes(16).toString("hex");
  const asked = { type: "research.requested", payload: { brand: "acme", keyword: `tea ${traceId.slice(0, 6)}` } };
  const traceparent = `00-${traceId}-${randomBytes(8).toString("hex")}-01`;
  await askerOf(engine.url, engine.token)("POST", "/v1/commands", asked, { traceparent });

  const deadline = Date.now() + longestMs;
  let spans: Kept[] = [];
  while (Date.now() < deadline && !WORKFLOWS.every((name) => spans.some(({ displayName }) => displayName === name))) {
    await sleep(500);
    spans = await spansIn(url, traceId);
  }
  for (const line of treeOf(spans)) console.log(line);
  const ids = new Set(spans.map(({ spanId }) => spanId));
  const first = spans.filter(({ parentSpanId }) => parentSpanId === undefined || !ids.has(parentSpanId));
  const missing = WORKFLOWS.filter((name) => !spans.some(({ displayName }) => displayName === name));
  console.log(JSON.stringify({ spans: spans.length, first: first.map(({ displayName }) => displayName), missing }));
  return missing.length === 0 && first.length === 1;
}

async function spansIn(url: string, traceId: string): Promise<Kept[]> {
  const answer = await fetch(`${url}/api/traces/${traceId}`, { signal: AbortSignal.timeout(5000) }).catch(() => undefined);
  const trace = (await answer?.json().catch(() => undefined)) as { spans?: Record<string, Kept> } | undefined;
  return Object.values(trace?.spans ?? {});
}

function treeOf(spans: readonly Kept[], parent?: string, since = Math.min(...spans.map(({ startTime }) => startTime))): string[] {
  const ids = new Set(spans.map(({ spanId }) => spanId));
  const isHere = ({ parentSpanId }: Kept) => (parent === undefined ? !ids.has(parentSpanId ?? "") : parentSpanId === parent);
  return spans
    .filter(isHere)
    .toSorted((one, other) => one.startTime - other.startTime)
    .flatMap(({ displayName, spanId, startTime, endTime }) => [
      `${displayName} · ${startTime - since} ms, took ${endTime - startTime} ms`,
      ...treeOf(spans, spanId, since).map((line) => `  ${line}`),
    ]);
}
