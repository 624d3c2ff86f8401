const begun: string[] = [];

/** The code of a commit starts: its rows may be written late, after other runs' writes. */
export const noteBegun = (subject: string): void => void begun.push(subject);

/** The commits with this name prefix whose code has started in this process, including repeats. */
export const begunOf = (prefix: string): string[] => begun.filter((subject) => subject.startsWith(prefix)).sort();
