import type { EngineEnv } from "../contract/bindings.ts";
import type { Hide } from "../contract/hide.ts";
import { instanceId } from "../contract/ids.ts";
import { laneIn } from "../contract/queue.ts";
import { consumeCommands } from "../intake/consume/commands.ts";
import { consumeEvents } from "../intake/consume/events.ts";
import type { Intake, Taker } from "../intake/consumer.ts";
import { capture } from "../intake/letters/capture.ts";
import { envelopeIn } from "../intake/letters/letter.ts";
import type { LaneLetter, OnFailure } from "../lanes/definition.ts";
import type { Catalog } from "../topology/catalog.ts";
import { type ConsumerDefinition, ownOf } from "../topology/consumer.ts";
import { hideIn } from "../topology/marks.ts";

/** A lane of the engine, which the consumer of the lane's queue declares. */
export interface EngineLane {
  readonly name: string;
  readonly consumer: ConsumerDefinition;
  readonly onFailure: OnFailure;
  /**
   * Maximum number of instances of one key that run at the same time. A lane of events has no maximum, because such a lane waits for no
   * instance.
   */
  readonly concurrency: number;
  readonly taker: Taker;
  /** The id of the instance that a message starts; undefined if the message starts no instance. */
  instanceOf(body: unknown): string | undefined;
  /** Redacts the values of a message's withheld fields in the error of the message's latest attempt. */
  hideOf(body: unknown): Hide;
  /** Stores as a dead letter a message that an operator skipped. The function throws the database's error. */
  keepLetter(letter: LaneLetter, env: EngineEnv): Promise<void>;
}

export function lanesOf(catalog: Catalog): EngineLane[] {
  return ownOf(catalog.consumers).flatMap((consumer) => {
    const name = laneIn(consumer.queue.name);
    if (name === undefined) return [];
    const performers = new Map((consumer.starts ?? []).map((workflow) => [workflow.on.type, workflow.name]));
    return [
      {
        name,
        consumer,
        onFailure: consumer.onFailure ?? "block",
        concurrency: consumer.starts ? consumer.concurrency : Number.POSITIVE_INFINITY,
        taker: consumer.starts ? consumeCommands(consumer, catalog) : consumeEvents(consumer, catalog),
        instanceOf(body) {
          const envelope = envelopeIn(body);
          const workflow = performers.get(envelope?.message_type ?? "");
          return envelope && workflow && instanceId(envelope.tenant_id, workflow, envelope.idempotency_key);
        },
        hideOf: (body) => hideIn(catalog, consumer.queue.name, body),
        keepLetter: (letter, env) => keepLetter({ env, consumer, catalog }, letter),
      },
    ];
  });
}

async function keepLetter(intake: Intake, { id, body, attempts, error, sentAt }: LaneLetter): Promise<void> {
  const why = new Error(`An operator skipped it in its lane.${error === null ? "" : ` Last error: ${error}`}`);
  const message = { id, body, timestamp: new Date(sentAt) };
  // The message is also refused, so that its row shows that its instance will not start. No later event would give the message a turn.
  const [fate] = await capture(intake, [{ message, error: why, attempts: Math.max(1, attempts), refused: true, reason: "skipped" }]);
  if (typeof fate === "object") throw fate.failed;
}
