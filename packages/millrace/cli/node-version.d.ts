/** Why this Node cannot run the commands; undefined when it can. */
export function nodeRefusal(version: string): string | undefined;
