import { paint, say } from "../terminal.ts";

/** A mistake in a project or in its account. */
export interface Finding {
  /** A stable name, for programs. */
  readonly code: string;
  /** The mistake, its place and its consequence. */
  readonly says: string;
  /** The line to paste, or the command to run. */
  readonly line?: string;
  /** True where a deployment would fail, or run one workflow in place of another. */
  readonly stops?: boolean;
}

/** Prints findings: each sentence, and its line below. */
export function tellFindings(findings: readonly Finding[]): void {
  for (const { says, line } of findings) say(`${paint("red", "✗")} ${says}${line === undefined ? "" : `\n    ${line}`}`);
}
