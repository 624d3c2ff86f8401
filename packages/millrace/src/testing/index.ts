// The door `millrace/testing`: crashes, deliveries and the clock, for tests of chains in vitest's pool of Workers.
export type { CrashPoint } from "../contract/crash-points.ts";
export { expireLeases, keeperRound } from "./clock.ts";
export { holdCounts, settleCounts } from "./counts.ts";
export { dieAt, failAt, pauseAt } from "./crashes.ts";
export { deliverTo, type Settled } from "./deliveries.ts";
