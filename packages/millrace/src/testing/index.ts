// Entry point `millrace/testing`: tests of workflows in the Workers pool of vitest.
export type { CrashPoint } from "../contract/crash-points.ts";
export { expireLeases, keeperRound, skipPauses } from "./clock.ts";
export { crashEverywhere } from "./crash-everywhere.ts";
export { dieAt, failAt, pauseAt } from "./crashes.ts";
export { deliverTo, messageFor } from "./deliveries.ts";
export { holdCounts, settleCounts, untilEnded } from "./ends.ts";
export { recordingUpstream } from "./upstream.ts";
