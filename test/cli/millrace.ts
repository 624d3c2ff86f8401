import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { ROOT } from "../../src/cli/local/wrangler.ts";

/** What a call of the command has said, and what it ended with. */
export interface Said {
  code: number | null;
  /** What programs read. */
  out: string;
  /** What people read beside that. */
  err: string;
}

/** What a command of ours finds in its environment beside what is there; undefined takes a variable away. */
export type Variables = Readonly<Record<string, string | undefined>>;

/** Runs one of our commands, as `npx millrace` does. */
export async function run(args: readonly string[], variables: Variables = {}, input = ""): Promise<Said> {
  const child = spawn(process.execPath, ["src/cli/launch.js", ...args], { cwd: ROOT, env: { ...process.env, ...variables } });
  child.stdin.end(input);
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  return { code, out, err };
}

/** `npx millrace …` in somebody's hand. */
export function millrace({ url, token }: { url: string; token: string }) {
  return (args: readonly string[], input?: string) => run(args, { MILLRACE_URL: url, MILLRACE_TOKEN: token }, input);
}
