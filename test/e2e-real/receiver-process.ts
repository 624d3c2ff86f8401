import { createRequire } from "node:module";
import { join } from "node:path";

// Runs the OTLP receiver of an installed @genkit-ai/telemetry-server: node receiver-process.ts PACKAGE FOLDER PORT. The process exits by
// itself.

const [, , packageFolder = "", folder = "", port = ""] = process.argv;
const LONGEST_MS = 300_000;

interface TelemetryServer {
  startTelemetryServer(options: { port: number; traceStore: object; logStore: object }): Promise<void>;
  LocalFileTraceStore: new (options: { storeRoot: string; indexRoot: string }) => object;
  LocalFileLogStore: new (options: { storeRoot: string; indexRoot: string }) => object;
}

const server: TelemetryServer = createRequire(join(packageFolder, "package.json"))("@genkit-ai/telemetry-server");
const kept = { storeRoot: folder, indexRoot: folder };
await server.startTelemetryServer({
  port: Number(port),
  traceStore: new server.LocalFileTraceStore(kept),
  logStore: new server.LocalFileLogStore(kept),
});
setTimeout(() => process.exit(1), LONGEST_MS);
