// The built console: its script and its style. The module itself is made of their sources, and git does not have it.
export interface BuiltFile {
  /** A digest of the text, and what it is. */
  readonly name: string;
  /** Not in the package, where it is one of the Worker's static assets. */
  readonly text?: string;
}
export const script: BuiltFile;
export const style: BuiltFile;
