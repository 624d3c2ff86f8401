import { defineCommand, defineEvent, defineQueue, sensitive } from "millrace";
import * as z from "zod";

export const probeCommands = defineQueue({ name: "probe-commands" });
export const probeEvents = defineQueue({ name: "probe-events" });

/** One step of a scripted run. `subject` is the upstream's subject; it defaults to the run's name and the step's. */
const step = z.object({
  do: z.enum(["read", "commit", "keyed", "natural", "lookup", "once", "wait", "wait-unrouted", "approve", "sleep", "throw"]),
  name: z.string(),
  key: z.string().optional(),
  subject: z.string().optional(),
  emit: z.boolean().default(false),
  /** Bytes of output, or an output that is not JSON. */
  output: z.union([z.int(), z.literal("cycle")]).optional(),
  retries: z.int().default(3),
  timeoutMs: z.int().default(5000),
  /** The answer to a question at its timeout. */
  otherwise: z.enum(["approve", "reject"]).optional(),
  /** Code that catches every error of the step, and continues. */
  swallow: z.boolean().default(false),
  /** Its undo: by an effect of this class on `{subject}/undo {id}`, by rows of the test, or none. */
  undo: z.enum(["keyed", "natural", "lookup", "once", "rows"]).optional(),
});
export type ProbeStep = z.infer<typeof step>;

/** Run the scripted steps in order; steps within an inner list run side by side. */
export const ProbeRequested = defineCommand({
  type: "probe.requested",
  version: 2,
  payload: z.object({ name: z.string().min(1), steps: z.array(z.union([step, z.array(step)])), note: z.string().default("") }),
  key: ({ name }) => name,
  subject: ({ name }) => name,
  queue: probeCommands,
  upcasts: { 1: (old: { title: string; steps: unknown }) => ({ name: old.title, steps: old.steps }) },
});

/** A step of a probe was recorded. Followed by a run of `count-done`, sent to a listener, and awaited. */
export const ProbeDone = defineEvent({
  type: "probe.done",
  payload: z.object({ name: z.string(), step: z.string() }),
  subject: ({ name }) => name,
  queue: probeEvents,
  door: { scope: "enqueue" },
});

/** Sent because a probe was done. */
export const ProbeFollow = defineCommand({
  type: "probe.follow",
  payload: z.object({ name: z.string(), step: z.string() }),
  key: ({ name, step }) => `${name}/${step}`,
  subject: ({ name }) => name,
  queue: probeCommands,
});

/** Uses every kind of route: stored as a row, called, and followed by one command for each part. */
export const ProbeRouted = defineEvent({
  type: "probe.routed",
  payload: z.object({ name: z.string(), parts: z.array(z.string()).default([]), shared: z.string().optional() }),
  subject: ({ name }) => name,
  queue: probeEvents,
  door: { scope: "operate" },
});

/** Something a probe may wait for. */
export const ProbeSignal = defineEvent({
  type: "probe.signal",
  payload: z.object({ about: z.string(), value: z.string(), secret: sensitive(z.string()).optional() }),
  subject: ({ about }) => about,
  queue: probeEvents,
  door: { scope: "enqueue" },
});
