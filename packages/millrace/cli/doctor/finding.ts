import { paint, say } from "../terminal.ts";

export interface Finding {
  /** A stable code of the finding, which programs can evaluate. */
  readonly code: string;
  /** A text with the mistake, its location and its consequence. */
  readonly says: string;
  /** The line to add, or the command to run. */
  readonly line?: string;
  /** True if a deployment would fail, or would run the wrong workflow. */
  readonly stops?: boolean;
}

export function tellFindings(findings: readonly Finding[]): void {
  for (const { says, line } of findings) say(`${paint("red", "✗")} ${says}${line === undefined ? "" : `\n    ${line}`}`);
}
