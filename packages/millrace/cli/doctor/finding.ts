/** A mistake in a project or in its account. */
export interface Finding {
  /** A stable name, for programs. */
  readonly code: string;
  /** What is wrong, where, and what follows from it. */
  readonly says: string;
  /** The line to paste, or the command to run. */
  readonly line?: string;
}
