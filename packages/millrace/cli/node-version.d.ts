/** The reason why the current version of Node cannot run the commands. Undefined if the version can run the commands. */
export function nodeRefusal(version: string): string | undefined;
