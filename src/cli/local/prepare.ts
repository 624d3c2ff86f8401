import { join } from "node:path";
import { insertToken } from "./token.ts";
import { runWrangler } from "./wrangler.ts";

/** Brings the local database up to date and makes the token good in it. Both change nothing where nothing is to do. */
export async function prepareDatabase(folder: string, config: string, token: string): Promise<void> {
  const local = ["--local", "--config", config, "--persist-to", join(folder, "state")];
  await runWrangler(folder, "apply the migrations", ["d1", "migrations", "apply", "DB", ...local]);
  await runWrangler(folder, "store the token", ["d1", "execute", "DB", "--yes", ...local, "--command", insertToken(token)]);
}

/** Bundles the Worker once, so that editing its sources does not restart it. */
export async function bundle(folder: string, config: string): Promise<void> {
  await runWrangler(folder, "bundle the Worker", ["deploy", "--dry-run", "--outdir", join(folder, "bundle"), "--config", config]);
}

/** What to tell `wrangler dev` so that it runs that bundle. */
export function bundled(folder: string): string[] {
  return [join(folder, "bundle", "worker.js"), "--no-bundle"];
}

/** Loopback only, no questions, no debugger's port. */
export function devArgs(options: {
  folder: string;
  port: number;
  secrets: string;
  config: string;
  vars: Record<string, string>;
}): string[] {
  return [
    ...["--config", options.config, "--env-file", options.secrets, "--persist-to", join(options.folder, "state")],
    ...["--ip", "127.0.0.1", "--port", String(options.port), "--inspector-port", "0", "--show-interactive-dev-session=false"],
    ...Object.entries(options.vars).flatMap(([name, value]) => ["--var", `${name}:${value}`]),
  ];
}
