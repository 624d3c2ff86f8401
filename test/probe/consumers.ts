import { defineConsumer } from "millrace";
import { probeCommands, probeEvents } from "./messages.ts";

type Options = Parameters<typeof defineConsumer>[0];

const retries = { limit: 2, initial: "1 second", max: "2 seconds" } as const;

/** The consumer of the probes' commands, which starts these workflows. */
export const startsOf = (...starts: NonNullable<Options["starts"]>) => defineConsumer({ queue: probeCommands, retries, starts });

/** The consumer of the probes' events, with these routes. */
export const routesOf = (...routes: NonNullable<Options["routes"]>) =>
  defineConsumer({ queue: probeEvents, retries, batch: { size: 100, waitSeconds: 0 }, routes });
