import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint, isSimulatedDeath } from "../contract/crash-points.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import type { QueueDefinition } from "../contract/queue.ts";
import type { AnyWorkflow } from "../guard/workflow.ts";
import type { Catalog } from "../topology/catalog.ts";
import { type Acceptance, acceptance } from "./accept.ts";
import { type Consumer, type Outcome, settle } from "./batch.ts";
import { deadLetter } from "./capture.ts";
import { isProven } from "./proof.ts";
import { type RefusedMessage, readMessages } from "./read.ts";
import { startInstances } from "./start.ts";
import { takeBatchIn } from "./take.ts";

/**
 * The consumer of a command queue: parse, key, take in, start, settle. One round trip to D1 and one `createBatch` per
 * workflow, however large the batch; no round trip for commands that the API or the router has just accepted. It never throws: a handler that throws loses the settlements it made.
 */
export function consumeCommands(queue: QueueDefinition, catalog: Catalog): Consumer {
  const performers = new Map(
    catalog.workflows.filter(({ on }) => on.kind === "command" && on.queue.name === queue.name).map((one) => [one.on.type, one]),
  );
  const performer = (type: string): AnyWorkflow => {
    const workflow = performers.get(type);
    if (workflow) return workflow;
    throw new MillraceError(
      "unknown_message_type",
      `No workflow takes "${type.slice(0, 100)}" from the queue ${queue.name}. It carries ${[...performers.keys()].join(", ")}.`,
    );
  };

  return {
    queue: queue.name,
    async handle(batch, env) {
      const outcomes = new Map<Message, Outcome>();
      try {
        const { read, refused } = readMessages(batch.messages, (type) => performer(type).on);
        const arrivals = read.map(({ message, envelope }) => ({
          message,
          envelope,
          acceptance: acceptance(performer(envelope.message_type).name, envelope, queue.name),
        }));
        const rest = await startProven(env, arrivals, outcomes);
        if (rest.length + refused.length > 0) await takeInAndStart(env, queue, rest, refused, outcomes);
        await crashPoint("Q03 created, not acknowledged");
      } catch (error) {
        if (isSimulatedDeath(error)) outcomes.clear();
        for (const message of batch.messages) if (!outcomes.has(message)) outcomes.set(message, { did: "retried", error });
      }
      settle(batch, queue, outcomes);
    },
  };
}

/** A message, and the instance it becomes. */
interface Arrival {
  readonly message: Message;
  readonly envelope: Envelope;
  readonly acceptance: Acceptance;
}

/** Starts what our own acceptance committed moments ago, without asking the database again. Answers the rest: what is not proven, what exists already, what could not be created. */
async function startProven(env: EngineEnv, arrivals: readonly Arrival[], outcomes: Map<Message, Outcome>): Promise<Arrival[]> {
  const proven = arrivals.filter(({ message, envelope, acceptance }) =>
    isProven(env.MILLRACE_KEY, acceptance, envelope.acceptance, message.attempts),
  );
  const { failed, existed } = await startInstances(
    env,
    proven.map(({ acceptance }) => acceptance),
    "first",
  );
  const created = new Map(
    proven.filter(({ acceptance: { id } }) => !failed.has(id) && !existed.has(id)).map((one) => [one.acceptance.id, one.message]),
  );
  for (const message of created.values()) outcomes.set(message, { did: "started" });
  return arrivals.filter(({ message }) => !outcomes.has(message));
}

/** Takes everything else in by one atomic write, and starts what is to be started. */
async function takeInAndStart(
  env: EngineEnv,
  queue: QueueDefinition,
  arrivals: readonly Arrival[],
  refused: readonly RefusedMessage[],
  outcomes: Map<Message, Outcome>,
): Promise<void> {
  const taken = await takeBatchIn(env, queue, {
    instances: arrivals.map(({ acceptance }) => acceptance),
    refused: refused.map(({ message, error }) => deadLetter(queue.name, message, message.attempts, error)),
    confirmed: arrivals.map(({ envelope }) => envelope),
  });
  for (const { message } of refused) outcomes.set(message, { did: "captured" });

  const toStart = arrivals.map(({ acceptance }) => acceptance).filter(({ id }) => taken.mustStart(id));
  const { failed } = await startInstances(env, toStart, "first");
  for (const { message, acceptance } of arrivals) {
    const error = failed.get(acceptance.id);
    outcomes.set(message, error === undefined ? { did: taken.outcomeOf(acceptance.id) } : { did: "retried", error: new Error(error) });
  }
}
