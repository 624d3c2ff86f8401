/** The reason why this Node cannot run the commands. Undefined if this Node can run them. */
export function nodeRefusal(version: string): string | undefined;
