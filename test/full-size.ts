declare const MILLRACE_FULL_SIZE: boolean;

/** True with `MILLRACE_FULL_SIZE=true`: as many cases as the documentation names. The frequent gate runs fewer. */
export const IS_FULL_SIZE = MILLRACE_FULL_SIZE;

/** How much of something is tried. */
export const howMany = (inGate: number, inFull: number): number => (IS_FULL_SIZE ? inFull : inGate);
