import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { Refusal } from "../command.ts";
import { closedFolder } from "../local/engine-process.ts";
import { lastError, wranglerEnv } from "../local/wrangler.ts";
import type { Project } from "../project.ts";

export interface Run {
  account?: string | undefined;
  /** The path of a configuration file that wrangler uses instead of the project's configuration. */
  config?: string;
  /** A file descriptor that wrangler reads as /dev/stdin. */
  input?: number | undefined;
  stop?: AbortSignal;
}

/**
 * Runs the project's wrangler with the project's configuration and environment, and returns its output. Errors: a `Refusal` that ends with
 * the error of wrangler.
 */
export async function runProjectWrangler(
  project: Project,
  doing: string,
  args: readonly string[],
  { account, config, input, stop }: Run = {},
): Promise<string> {
  const which = ["--config", config ?? project.config, ...(project.env ? ["--env", project.env] : [])];
  closedFolder(project.stateFolder);
  const env = { ...wranglerEnv(project.stateFolder), ...(account && { CLOUDFLARE_ACCOUNT_ID: account }) };
  const child: ChildProcess = spawn(process.execPath, [project.wrangler, ...args, ...which], {
    ...{ cwd: project.root, env, stdio: [input ?? "ignore", "pipe", "pipe"] },
    ...(stop && { signal: stop }),
  });
  const read = (stream: Readable | null) => (stream ? text(stream) : "");
  const [[code], out, err] = await Promise.all([once(child, "close"), read(child.stdout), read(child.stderr)]);
  if (code === 0) return out;
  throw new Refusal(`Could not ${doing}: ${errorOf(`${out}\n${err}`)}`);
}

/** The error of wrangler, with Cloudflare's reason, which wrangler prints on a line after the error. */
function errorOf(output: string): string {
  const error = lastError(output);
  const reason = /^\s*(\S.*\[code: \d+\])\s*$/m.exec(output)?.[1];
  return reason === undefined || error.includes(reason) ? error : `${error} ${reason}`;
}
