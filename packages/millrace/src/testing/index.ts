// Entry point `millrace/testing`: tests of workflows in the Workers pool of vitest.
export type { CodeAtWork, CrashPoint } from "../contract/crash-points.ts";
export type { Boundary } from "./broken.ts";
export { expireLeases, keeperRound, skipPauses } from "./clock.ts";
export { holdCounts, settleCounts } from "./counts.ts";
export { type CrashOptions, type CrashReport, crashEverywhere, type TriedRun } from "./crash-everywhere.ts";
export { dieAt, failAt, pauseAt } from "./crashes.ts";
export { deliverTo, type MessageOptions, messageFor, type Settled } from "./deliveries.ts";
export { type Ended, untilEnded } from "./ends.ts";
export { type RecordingUpstream, recordingUpstream, type UpstreamOptions, type UpstreamRequest, type UpstreamTrouble } from "./upstream.ts";
