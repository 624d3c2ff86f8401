declare const MILLRACE_FULL_SIZE: boolean;

/** How much of something is tried: a gate that is run many times a day tries fewer; `MILLRACE_FULL_SIZE=true` tries all. */
export const howMany = (inGate: number, inFull: number): number => (MILLRACE_FULL_SIZE ? inFull : inGate);
