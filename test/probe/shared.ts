import { call, defineCommand, defineConsumer, defineEvent, defineQueue, defineWorkflow, on, sendEach } from "millrace";
import * as z from "zod";

const several = { partitions: 2, tenants: ["big"] };
const sharedCommands = defineQueue({ name: "shared-commands", ...several });
export const sharedEvents = defineQueue({ name: "shared-events", ...several, retired: ["shared-events-old"] });
const payload = z.object({ name: z.string(), asks: z.array(z.string()).default([]) });
const name = ({ name }: { name: string }) => name;

/** The code that the event's route calls, by the event's name. */
export const hearing = new Map<string, () => Promise<unknown>>();

const SharedAsked = defineCommand({ type: "shared.asked", payload, key: name, subject: name, queue: sharedCommands });
export const SharedTold = defineEvent({ type: "shared.told", payload, subject: name, queue: sharedEvents, access: { scope: "enqueue" } });

/** Emits an event with the name and the further names of its command. */
export const tellShared = defineWorkflow({
  name: "tell-shared",
  on: SharedAsked,
  run: ({ payload, step }) => step.commit("tell", () => ({ emit: [SharedTold.from(payload)] })),
});

const next = ({ payload: { asks } }: { payload: z.infer<typeof payload> }) =>
  asks.slice(0, 1).map((name) => ({ name, asks: asks.slice(1) }));

export const sharedConsumers = [
  defineConsumer({ queue: sharedCommands, starts: [tellShared] }),
  defineConsumer({
    queue: sharedEvents,
    routes: [
      on(
        SharedTold,
        sendEach(SharedAsked, next),
        call(({ payload }) => hearing.get(payload.name)?.()),
      ),
    ],
  }),
];
