// The built console: its script and style. The build creates this module, which is not in git.
export interface BuiltFile {
  /** The file's name, which is a digest of the file's text with the file extension. */
  readonly name: string;
  /** The file's text. Undefined in the npm package, which serves the file as a static asset of the Worker. */
  readonly text?: string;
}
export const script: BuiltFile;
export const style: BuiltFile;
