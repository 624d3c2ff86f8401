// A separate process that runs a Worker's bundle until it is ended. `wrangler dev` takes twice as long to start, because it watches the
// files and also starts a second runtime as a proxy.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs, parseEnv } from "node:util";
import { settingsIn } from "../terminal.ts";
import "./lighter-start.ts";
import { BUNDLE, miniflare } from "./miniflare.ts";

const { values } = parseArgs({
  options: {
    bundle: { type: "string", default: "" },
    "env-file": { type: "string", default: "" },
    "persist-to": { type: "string", default: "" },
    port: { type: "string", default: "" },
    var: { type: "string", multiple: true, default: [] },
  },
});

/**
 * Wrangler's prefixes for log lines of these levels. This process writes the same prefixes, so that its log can be parsed like wrangler's
 * log.
 */
const MARKS: Record<string, string> = { error: "✘ [ERROR] ", warn: "▲ [WARNING] " };

function say({ level, message }: { level: string; message: string }): void {
  process.stdout.write(`${MARKS[level] ?? ""}${message}\n`);
}

const { bindings, ...worker } = JSON.parse(readFileSync(join(values.bundle, BUNDLE.options), "utf8"));
const texts = readdirSync(values.bundle).filter((name) => name.endsWith(".md"));
const moduleOf = (type: string, name: string) => ({ type, path: join(values.bundle, name) });
const vars = values.var.map((one) => [one.slice(0, one.indexOf(":")), one.slice(one.indexOf(":") + 1)]);
const { Miniflare, convertV4MiniflareOptions } = miniflare();
const runtime = new Miniflare(
  convertV4MiniflareOptions({
    host: "127.0.0.1",
    port: Number(values.port),
    cf: false,
    logRequests: false,
    handleStructuredLogs: say,
    // The state has wrangler's folder layout, so that wrangler's commands find it.
    resourcePersistencePath: join(values["persist-to"], "v3"),
    workers: [
      {
        ...worker,
        modulesRoot: values.bundle,
        modules: [moduleOf("ESModule", BUNDLE.entry), ...texts.map((name) => moduleOf("Text", name))],
        bindings: { ...bindings, ...parseEnv(settingsIn(values["env-file"])), ...Object.fromEntries(vars) },
      },
    ],
  }),
);
await runtime.ready.catch((error: unknown) => {
  say({ level: "error", message: error instanceof Error ? error.message : String(error) });
  process.exit(1);
});
