const begun: string[] = [];

/** The code of a commit begins: what it wants written may be written late, behind other runs' writes. */
export const noteBegun = (subject: string): void => void begun.push(subject);

/** Which commits' code has begun in this process, of those whose names begin so; as often as it did. */
export const begunOf = (prefix: string): string[] => begun.filter((subject) => subject.startsWith(prefix)).sort();
