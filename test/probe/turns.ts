import { call, defineCommand, defineConsumer, defineEvent, defineStep, defineWorkflow, on, sensitive, type WorkflowCall } from "millrace";
import { defineLaneQueue } from "millrace/lanes";
import * as z from "zod";

const payload = z.object({ key: z.string(), name: z.string(), secret: sensitive(z.string()).optional() });
export type TurnCall = WorkflowCall<z.infer<typeof payload>>;

/** The code of each run between its two effects, by the run's name. */
export const turnCode = new Map<string, (call: TurnCall) => Promise<unknown>>();

const noted = defineStep<{ subject: string }, string>({
  effect: "keyed",
  retries: { limit: 5, delay: 50, backoff: "constant" },
  undo: { effect: "natural", run: async () => "forgotten" },
  async run({ input, key, env }) {
    const url = `${(env as unknown as { UPSTREAM_URL: string }).UPSTREAM_URL}/keyed/${encodeURIComponent(input.subject)}`;
    const response = await fetch(url, { method: "POST", headers: { "idempotency-key": key }, body: "{}" });
    return ((await response.json()) as { id: string }).id;
  },
});

/** A lane that starts a workflow. Its runs have two external effects: `{key}/{name} begins` and `{key}/{name} ends`. */
function turn(name: string, onFailure: "block" | "park" | "hold", concurrency = 1) {
  const queue = defineLaneQueue({ name });
  const command = defineCommand({
    type: `turn.${name}`,
    payload,
    key: (asked) => `${asked.key}/${asked.name}`,
    subject: ({ key }) => key,
    queue,
  });
  const workflow = defineWorkflow({
    name: `turn-${name}`,
    on: command,
    async run(call) {
      const { key, name: run } = call.payload;
      await call.step.effect("begins", noted, { subject: `${key}/${run} begins` });
      const result = await turnCode.get(run)?.(call);
      await call.step.effect("ends", noted, { subject: `${key}/${run} ends` });
      return result ?? null;
    },
  });
  const retries = { limit: 2, initial: 20, max: 100 };
  return { queue, command, workflow, consumer: defineConsumer({ queue, starts: [workflow], onFailure, concurrency, retries }) };
}

export const blocked = turn("blocked", "block");
export const parked = turn("parked", "park");
export const heldUp = turn("held", "hold");
/** A lane that runs two messages of one key concurrently. */
export const paired = turn("paired", "block", 2);

/** The received events, in order; and, by key, functions that return the error with which an event is refused. */
export const heard: { key: string; name: string }[] = [];
export const deaf = new Map<string, () => Error | undefined>();

/** A lane of events with a call that receives them. */
function tale(name: string, onFailure: "block" | "park" | "hold") {
  const queue = defineLaneQueue({ name });
  const event = defineEvent({ type: `turn.${name}`, payload, subject: ({ key }) => key, queue, access: { scope: "enqueue" } });
  const hear = call<z.infer<typeof payload>>(async ({ payload: one }) => {
    const why = deaf.get(one.key)?.();
    if (why) throw why;
    heard.push(one);
  });
  const retries = { limit: 1, initial: 20, max: 50 };
  return { queue, event, consumer: defineConsumer({ queue, routes: [on(event, hear)], onFailure, retries }) };
}

export const told = tale("told", "block");
export const whispered = tale("whispered", "park");
export const cried = tale("cried", "hold");

export const turns = [blocked, parked, heldUp, paired];
export const turnConsumers = [...turns, told, whispered, cried].map(({ consumer }) => consumer);
