import { crashPoint } from "../../contract/crash-points.ts";
import { assertFewHops } from "../../contract/envelope.ts";
import { MillraceError } from "../../contract/errors.ts";
import { hasFlow } from "../../contract/flow.ts";
import { unpackPayload } from "../../contract/payload.ts";
import { hasWaited, isProven } from "../../recorder/proof.ts";
import { startInTurn } from "../../recorder/start.ts";
import { query } from "../../store/d1/retry.ts";
import { selectNotToStart } from "../../store/instances/fate.ts";
import type { Identity } from "../../store/instances/keys.ts";
import type { Catalog } from "../../topology/catalog.ts";
import type { CommandConsumer } from "../../topology/consumer.ts";
import type { AnyWorkflow } from "../../workflow/workflow.ts";
import { acceptance } from "../accept/accept.ts";
import type { Intake, OnCaptured, Outcomes, Taker } from "../consumer.ts";
import { firstOf } from "../identity.ts";
import { handleBatch } from "./batch.ts";
import { inOrder } from "./in-order.ts";
import { nothing, type Plan } from "./plan.ts";
import { readMessages } from "./read.ts";
import { takeAllIn } from "./take.ts";

/**
 * The consumer of a command queue. The consumer parses each message, derives the id, commits the row, starts the instance, and acknowledges
 * the message. A batch of any size costs one round trip to D1 and one `createBatch` per workflow. Commands that the API or a route has just
 * accepted cost no round trip.
 */
export function consumeCommands(consumer: CommandConsumer, catalog: Catalog, onCaptured?: OnCaptured): Taker {
  const { queue, starts } = consumer;
  const performers = new Map(starts.map((workflow) => [workflow.on.type, workflow]));
  const performer = (type: string): AnyWorkflow => {
    const workflow = performers.get(type);
    if (workflow) return workflow;
    throw new MillraceError(
      "unknown_message_type",
      `No workflow of the queue ${queue.name} performs "${type.slice(0, 100)}". The queue carries ${[...performers.keys()].join(", ")}.`,
    );
  };

  return {
    queue: queue.name,
    handle: (batch, env, triesOf) => {
      const intake = { env, consumer, catalog, triesOf, onCaptured, takenAt: Date.now() };
      return handleBatch(intake, batch, async (messages, outcomes) => {
        const { read, refused } = readMessages(messages, (type) => performer(type).on);
        for (const { message, error } of refused) outcomes.set(message, { did: "refused", error });
        const turns = await inOrder(intake, read, outcomes);
        const planned = turns.map(async ({ message, envelope, definition, payload: inline, move, isOver }): Promise<Plan[]> => {
          try {
            // The command's row in the database determines whether the command is a repeat, and counts the repeats.
            const workflow = performer(envelope.message_type);
            if (!isOver) assertFewHops(catalog, workflow.name, envelope);
            const fetches = envelope.payload_ref !== undefined && hasFlow(workflow.name);
            const payload = fetches ? await unpackPayload(env.PAYLOADS, definition, envelope) : inline;
            const command = acceptance(workflow, envelope, queue.name, { payload });
            const plan = { ...nothing({ message, envelope }), move };
            return [isOver ? plan : { ...plan, instances: [command] }];
          } catch (error) {
            outcomes.set(message, { did: "retried", error });
            return [];
          }
        });
        const plans = (await Promise.all(planned)).flat();
        await takeAllIn(intake, await startProven(intake, plans, outcomes), outcomes);
        await crashPoint("Q03 created, not acknowledged");
      });
    },
  };
}

/**
 * Starts newly accepted commands without a database query. For commands that have waited since their acceptance, one query finds the
 * commands stopped by an operator. If the platform cannot create a command's instance now, the keeper starts the instance later from its
 * committed row. Returns all remaining commands: commands without a proof, stopped commands, and commands whose instance exists.
 */
async function startProven({ env }: Intake, plans: readonly Plan[], outcomes: Outcomes): Promise<Plan[]> {
  const isOwn = ({ message, envelope, instances, move }: Plan) =>
    move === undefined && instances.every((one) => isProven(env.MILLRACE_KEY, one, envelope.acceptance, message.attempts));
  const own = plans.filter(isOwn);
  const kept = await notToStart(
    env,
    own.filter(({ envelope }) => hasWaited(envelope)).flatMap(({ instances }) => instances),
  );
  const proven = own.filter(({ instances }) => !instances.some(({ id }) => kept.has(id)));
  const firsts = new Set(firstOf(proven.flatMap(({ instances }) => instances)));
  const { failed, existed } = await startInTurn(env, [...firsts]);
  for (const { message, instances } of proven) {
    for (const one of instances) {
      if (firsts.has(one) && !existed.has(one.id)) outcomes.set(message, { did: failed.has(one.id) ? "put off" : "started" });
    }
  }
  return plans.filter(({ message }) => !outcomes.has(message));
}

/**
 * The ids of waiting commands that their message must not start. If the query fails, the result contains all waiting commands, so that
 * their messages are handled like messages without a proof.
 */
async function notToStart(env: Intake["env"], waited: readonly Identity[]): Promise<{ has(id: string): boolean }> {
  const ids = waited.map(({ id }) => id);
  if (ids.length === 0) return new Set();
  const found = await query<{ id: string }>(env.DB, selectNotToStart(ids)).catch(() => waited);
  return new Set(found.map(({ id }) => id));
}
