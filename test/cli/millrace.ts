import { vi } from "vitest";
import { exitCodeOf } from "../../packages/millrace/cli/command.ts";
import { operate } from "../../packages/millrace/cli/operate/operate.ts";

/** The output of a call of the command, and its exit code. */
export interface Said {
  code: number;
  /** stdout. */
  out: string;
  /** stderr. */
  err: string;
}

/**
 * Runs `npx millrace …` within this process: one call at a time, because the output is captured from the process's own streams. A process
 * per call would need 125 ms of processor time; docs/command-line.md is tested with separate processes.
 */
async function said(args: readonly string[], variables: Readonly<Record<string, string | undefined>>): Promise<Said> {
  const heard = { out: "", err: "" };
  const spies = (["out", "err"] as const).map((to) =>
    vi.spyOn(process[`std${to}`], "write").mockImplementation((text) => {
      heard[to] += text;
      return true;
    }),
  );
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  try {
    const code = await exitCodeOf(operate, { args: [...args], stop: new AbortController().signal });
    return { code, ...heard };
  } finally {
    for (const spy of spies) spy.mockRestore();
    vi.unstubAllEnvs();
  }
}

/** The command with this token for the engine at this address, or without both. */
export function millrace({ url, token }: { url?: string; token?: string } = {}): (args: readonly string[]) => Promise<Said> {
  return (args) => said(args, { MILLRACE_URL: url, MILLRACE_TOKEN: token });
}
