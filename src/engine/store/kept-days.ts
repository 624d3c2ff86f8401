// How long what is left of a key stays: the rules of retention are made of these, and who asks for a key is told by them.

/** Instances that ended as was asked or decided, since they did. */
export const ENDED_DAYS = 30;
/** Instances that failed and that nobody looked after, since they did. */
export const FAILED_DAYS = 90;
/** The hash of a pruned key, since it was pruned. */
export const TOMBSTONE_DAYS = 400;
/** The hash of the key of an event from outside, since it was taken: as long as an instance and its tombstone together. */
export const STATED_DAYS = 430;
