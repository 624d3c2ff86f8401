import { defineCommand, defineEvent, defineQueue, sensitive } from "millrace";
import * as z from "zod";

export const probeCommands = defineQueue({ name: "probe-commands" });
export const probeEvents = defineQueue({ name: "probe-events" });

/** One step of a scripted run. `subject` is the subject of the request to the upstream service. Default: `{run}/{step}`. */
const step = z.object({
  do: z.enum(["read", "commit", "keyed", "natural", "lookup", "once", "wait", "wait-unrouted", "approve", "sleep", "throw"]),
  name: z.string(),
  key: z.string().optional(),
  subject: z.string().optional(),
  emit: z.boolean().default(false),
  /** The size of the output in bytes, or a cyclic output, which has no JSON. */
  output: z.union([z.int(), z.literal("cycle")]).optional(),
  retries: z.int().default(3),
  timeoutMs: z.int().default(5000),
  /** The decision at the question's timeout. */
  otherwise: z.enum(["approve", "reject"]).optional(),
  /** The workflow code catches every error of this step and continues. */
  swallow: z.boolean().default(false),
  /** The step's undo handler: an effect of this class on `{subject}/undo {id}`, or rows of the test. Default: no handler. */
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

/**
 * A step of a probe was recorded. Routes start a run of `count-done` for this event, send a command and notify an object; other runs
 * wait for it.
 */
export const ProbeDone = defineEvent({
  type: "probe.done",
  payload: z.object({ name: z.string(), step: z.string() }),
  subject: ({ name }) => name,
  queue: probeEvents,
  access: { scope: "enqueue" },
});

/** A command that a route sends for each `probe.done`. */
export const ProbeFollow = defineCommand({
  type: "probe.follow",
  payload: z.object({ name: z.string(), step: z.string() }),
  key: ({ name, step }) => `${name}/${step}`,
  subject: ({ name }) => name,
  queue: probeCommands,
});

/** An event with every kind of route: it is stored as a row, calls code, and sends one command for each part. */
export const ProbeRouted = defineEvent({
  type: "probe.routed",
  payload: z.object({ name: z.string(), parts: z.array(z.string()).default([]), shared: z.string().optional() }),
  subject: ({ name }) => name,
  queue: probeEvents,
  access: { scope: "operate" },
});

/** An event that a run of the probe can wait for. */
export const ProbeSignal = defineEvent({
  type: "probe.signal",
  payload: z.object({ about: z.string(), value: z.string(), secret: sensitive(z.string()).optional() }),
  subject: ({ about }) => about,
  queue: probeEvents,
  access: { scope: "enqueue" },
});
