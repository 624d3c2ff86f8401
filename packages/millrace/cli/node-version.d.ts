/** The reason why this Node cannot run the commands. Undefined if it can. */
export function nodeRefusal(version: string): string | undefined;
