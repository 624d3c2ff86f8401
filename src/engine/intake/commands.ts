import { crashPoint } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";
import type { QueueDefinition } from "../contract/queue.ts";
import type { AnyWorkflow } from "../guard/workflow.ts";
import { acceptance } from "./accept.ts";
import { type Consumer, type Outcome, settle } from "./batch.ts";
import { deadLetter } from "./capture.ts";
import { readMessages } from "./read.ts";
import { startInstances } from "./start.ts";
import { takeBatchIn } from "./take.ts";

/**
 * The consumer of a command queue: parse, key, take in, start, settle. One round trip to D1 and one `createBatch` per
 * workflow, however large the batch. It never throws: a handler that throws loses the settlements it made.
 */
export function consumeCommands(queue: QueueDefinition, ...workflows: AnyWorkflow[]): Consumer {
  const performers = new Map(workflows.map((workflow) => [workflow.on.type, workflow]));
  const performer = (type: string): AnyWorkflow => {
    const workflow = performers.get(type);
    if (workflow) return workflow;
    throw new MillraceError(
      "unknown_message_type",
      `No workflow takes "${type}" from the queue ${queue.name}. It takes ${[...performers.keys()].join(", ")}.`,
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
          acceptance: acceptance(performer(envelope.message_type).name, envelope, queue.name),
        }));

        const taken = await takeBatchIn(env, queue, {
          instances: arrivals.map((arrival) => arrival.acceptance),
          refused: refused.map(({ message, error }) => deadLetter(queue.name, message, message.attempts, error)),
          confirmed: read.map(({ envelope }) => envelope),
        });
        for (const { message } of refused) outcomes.set(message, { did: "captured" });

        const failed = await startInstances(
          env,
          arrivals.filter(({ acceptance }) => taken.mustStart(acceptance.id)).map(({ acceptance }) => acceptance),
        );
        await crashPoint("Q03 created, not acknowledged");
        for (const { message, acceptance } of arrivals) {
          const error = failed.get(acceptance.id);
          outcomes.set(
            message,
            error === undefined ? { did: taken.outcomeOf(acceptance.id) } : { did: "retried", error: new Error(error) },
          );
        }
      } catch (error) {
        for (const message of batch.messages) if (!outcomes.has(message)) outcomes.set(message, { did: "retried", error });
      }
      settle(batch, queue, outcomes);
    },
  };
}
