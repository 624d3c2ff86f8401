declare const MILLRACE_FULL_SIZE: boolean;

/** True with `MILLRACE_FULL_SIZE=true`: as much is tried as the promise names. A gate that is run many times a day tries less. */
export const IS_FULL_SIZE = MILLRACE_FULL_SIZE;

/** How much of something is tried. */
export const howMany = (inGate: number, inFull: number): number => (IS_FULL_SIZE ? inFull : inGate);
