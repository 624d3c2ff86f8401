import * as z from "zod";
import type { EngineEnv } from "../../contract/bindings.ts";
import { crashPoint } from "../../contract/crash-points.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { laneIn, MAX_DUE_SECONDS } from "../../contract/queue.ts";
import { iso } from "../../contract/row.ts";
import { relay } from "../../recorder/relay.ts";
import { jumpQueue, moveDue } from "../../store/instances/accept.ts";
import { type Call, type Change, instanceAct } from "./act.ts";
import { type InstanceMessage, messageOfInstance } from "./past.ts";

function whyNotDelayed({ instance: { status, due_at } }: Call<unknown>, message: InstanceMessage): string | null {
  if (status !== "accepted") return `The instance is ${status}: only a delayed command that has not started has a due time.`;
  if (due_at === null) return "The command has no delay: it starts as soon as its queue delivers it.";
  if (Date.parse(due_at) <= Date.now()) return "The command is due: it is just being started.";
  if (laneIn(message.queue) === undefined) return null;
  return "The command waits in a lane, which has its own times. Cancel the instance, then send the command under another key.";
}

function movedTo({ env, instance: { due_at }, next }: Change<unknown>, message: InstanceMessage, at: number | null, isRefused = false) {
  const isMoved = laneIn(message.queue) === undefined && !isRefused;
  return {
    change: isMoved ? moveDue(next, at) : null,
    before: { due_at },
    after: { due_at: iso(at ?? Date.now()) },
    to: "accepted",
    done: () => sendAgain(env, next.id, message, at),
  };
}

/** The consumer ignores each copy of the message that arrives before the due time. */
async function sendAgain(env: EngineEnv, id: string, { queue, envelope }: InstanceMessage, at: number | null) {
  await crashPoint("A03 accept committed, not enqueued");
  const delaySeconds = at === null ? 0 : Math.max(0, Math.ceil((at - Date.now()) / 1000));
  await relay(env, [{ id, queue: queue ?? "", delaySeconds, body: envelope }]);
  return {};
}

export const move = instanceAct({
  verb: "move",
  path: "move",
  summary: "Move a delayed command to another time",
  description: "Only before the command is due. Moved again, it starts at the last of these times.",
  accepted: "It is moved",
  body: {
    run_at: z.iso.datetime({ offset: true }).meta({ description: "The new time to start at: at most 365 days from now." }),
  },
  read: ({ env, instance }) => messageOfInstance(env, instance.id),
  refused(call, message) {
    const inMs = Date.parse(call.given.run_at) - Date.now();
    const isInTime = inMs > 0 && inMs <= MAX_DUE_SECONDS * 1000;
    const { must_end_by: end } = JSON.parse(message.envelope) as Partial<Envelope>;
    const why = whyNotDelayed(call, message);
    if (why !== null) return why;
    if (!isInTime) return "The new time must be within the next 365 days. To start it now, release it.";
    return end !== undefined && Date.parse(end) <= Date.parse(call.given.run_at)
      ? `The command must end by ${end}: move it to an earlier time.`
      : null;
  },
  plan: async ({ given }) => ({ consequence: `The command starts at ${iso(Date.parse(given.run_at))}.` }),
  change: (call, message) => movedTo(call, message, Date.parse(call.given.run_at)),
  bulk: { from: ["accepted"], usual: "accepted", activity: "delayed", given: ({ run_at = "" }) => ({ run_at }), needs: "run_at" },
});

export const release = instanceAct({
  verb: "release",
  path: "release",
  summary: "Start a delayed or waiting command now",
  description:
    "A delayed command starts before its due time. A command that waits for a slot of its workflow's `concurrency` starts beyond the limit. It starts once, although its message is still in the queue.",
  accepted: "It starts",
  body: {
    front: z
      .boolean()
      .default(false)
      .meta({ description: "Only for a waiting command: it does not start at once, but gets the next slot." }),
  },
  read: ({ env, instance }) => messageOfInstance(env, instance.id),
  refused(call, message) {
    if (message.waits === 1) return null;
    return whyNotDelayed(call, message) ?? (call.given.front ? "The command does not wait for a slot: release it without `front`." : null);
  },
  plan: async ({ given }, message) => ({
    consequence:
      message.waits !== 1
        ? "The command starts now, in its queue."
        : given.front
          ? "The command gets the next slot of its key."
          : "The command starts now, beyond the limit of its key.",
  }),
  change(call, message) {
    const { env, instance, given, next } = call;
    const { front = false } = given;
    if (message.waits !== 1) return movedTo(call, message, null, front);
    return {
      change: jumpQueue(next, front),
      before: { held: instance.held },
      after: { held: front ? "Gets the next slot." : null },
      to: instance.status,
      done: () => (front ? {} : sendAgain(env, instance.id, message, null)),
    };
  },
  bulk: { from: ["accepted"], usual: "accepted", activity: "delayed" },
});
