// Entry point `millrace/locks`: locks with one holder at a time.

export { tryLock, withLock } from "./client.ts";
export { Lock } from "./lock.ts";
