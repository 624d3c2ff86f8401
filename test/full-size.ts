declare const MILLRACE_FULL_SIZE: boolean;

/** True with `MILLRACE_FULL_SIZE=true`: as many cases as the documentation states. The regular test run has fewer. */
export const IS_FULL_SIZE = MILLRACE_FULL_SIZE;

/** The number of cases. */
export const howMany = (inGate: number, inFull: number): number => (IS_FULL_SIZE ? inFull : inGate);
