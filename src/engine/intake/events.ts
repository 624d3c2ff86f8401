import { address } from "../contract/address.ts";
import { bindingName, type EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { messageId } from "../contract/ids.ts";
import { unpackPayload } from "../contract/payload.ts";
import type { QueueDefinition } from "../contract/queue.ts";
import { rowChunks } from "../contract/sql.ts";
import { nextHop } from "../contract/trace.ts";
import { relay } from "../recorder/relay.ts";
import { type Assigned, assignSignals, insertSignals, wake } from "../signals/assign.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { EventListener, Target } from "../topology/routes.ts";
import { type Acceptance, acceptance, insertAccepted, outgoing } from "./accept.ts";
import { type Consumer, type Outcome, settle } from "./batch.ts";
import { deadLetter } from "./capture.ts";
import { type ReadMessage, readMessages } from "./read.ts";
import { startInstances } from "./start.ts";
import { captureReused, takeBatchIn } from "./take.ts";

/**
 * The consumer of the event queue: parse, route, take in, then start, send and wake, settle. Events of a whole batch share
 * one round trip to D1. An object is told before the event is confirmed, so that an event which could not be told comes back.
 */
export function consumeEvents(queue: QueueDefinition, catalog: Catalog): Consumer {
  return {
    queue: queue.name,
    async handle(batch, env) {
      const outcomes = new Map<Message, Outcome>();
      try {
        const { read, refused } = readMessages(batch.messages, (type) => catalog.subscribers(type).event);
        const plans = await Promise.all(read.map((one) => planOf(env, catalog, one)));
        const planned = plans.filter((plan) => "instances" in plan);
        for (const plan of plans) if (!("instances" in plan)) outcomes.set(plan.message, { did: "retried", error: plan.error });

        const followed = planned.flatMap((plan) => plan.instances);
        const instances = followed.filter(({ queue }) => queue === null);
        const commands = followed.filter(({ queue }) => queue !== null);
        const signals = planned.filter((plan) => plan.signals).map((plan) => plan.envelope);
        const signalStatements = signals.length > 0 ? [insertSignals(signals), ...assignSignals(signals)] : [];
        const commandRows = rowChunks(commands);

        const taken = await takeBatchIn(env, queue, {
          instances,
          refused: refused.map(({ message, error }) => deadLetter(queue.name, message, message.attempts, error)),
          confirmed: planned.map((plan) => plan.envelope),
          also: [...signalStatements, ...commandRows.map(insertAccepted)],
        });
        for (const { message } of refused) outcomes.set(message, { did: "captured" });
        const [, waits = []] = taken.also.splice(0, signalStatements.length);
        const sent = new Set(taken.also.splice(0, commandRows.length).flatMap((rows) => rows.map((row) => row.id)));

        await captureReused(
          env,
          queue,
          commands.filter(({ id }) => !sent.has(id)),
        );

        const { failed } = await startInstances(
          env,
          instances.filter(({ id }) => taken.mustStart(id)),
        );
        await relay(
          env,
          commands.filter(({ id }) => sent.has(id)).map((one) => outgoing(env.MILLRACE_KEY, one)),
        );
        await crashPoint("signal kept, not told");
        await wake(env, waits as unknown as Assigned[]);
        for (const plan of planned) {
          const error = plan.instances.map(({ id }) => failed.get(id)).find((found) => found !== undefined);
          outcomes.set(plan.message, error === undefined ? { did: "routed" } : { did: "retried", error: new Error(error) });
        }
      } catch (error) {
        for (const message of batch.messages) if (!outcomes.has(message)) outcomes.set(message, { did: "retried", error });
      }
      settle(batch, queue, outcomes);
    },
  };
}

/** What one event leads to: instances to start, commands to send, a signal to keep. */
interface Plan {
  readonly message: Message;
  readonly envelope: Envelope;
  readonly instances: readonly Acceptance[];
  readonly signals: boolean;
}

async function planOf(
  env: EngineEnv,
  catalog: Catalog,
  { message, envelope, definition }: ReadMessage,
): Promise<Plan | { message: Message; error: unknown }> {
  try {
    const { targets } = catalog.subscribers(definition.type);
    const needsPayload = targets.some((target) => target.do === "send" || target.do === "tell");
    const payload = needsPayload ? await unpackPayload(env.PAYLOADS, definition, envelope) : undefined;
    const instances = await Promise.all(targets.map((target) => follow(env, catalog, target, payload, envelope)));
    return {
      message,
      envelope,
      instances: instances.filter((one) => one !== undefined),
      signals: targets.some((target) => target.do === "signal"),
    };
  } catch (error) {
    return { message, error };
  }
}

async function follow(
  env: EngineEnv,
  catalog: Catalog,
  target: Target,
  payload: unknown,
  envelope: Envelope,
): Promise<Acceptance | undefined> {
  switch (target.do) {
    case "start":
      return acceptance(target.workflow.name, envelope, null);
    case "send": {
      const draft = target.command.from(target.payload(payload));
      const cause = messageId(envelope);
      const command = await address(env.PAYLOADS, draft, {
        tenantId: envelope.tenant_id,
        source: "router",
        correlationId: envelope.correlation_id,
        causationId: envelope.idempotency_key,
        traceparent: nextHop(envelope.traceparent),
        owner: `${cause}-${target.command.type}`,
      });
      return acceptance(catalog.performer(target.command.type).name, command, target.command.queue.name, draft.delaySeconds);
    }
    case "tell":
      await objectNamed(env, target.object, target.name(payload, envelope)).onEvent(envelope);
      return undefined;
    case "signal":
      return undefined;
  }
}

function objectNamed(env: EngineEnv, object: string, name: string): EventListener {
  const namespace = (env as unknown as Record<string, DurableObjectNamespace | undefined>)[bindingName(object)];
  if (!namespace)
    throw new MillraceError(
      "config_invalid",
      `No Durable Object is bound as ${bindingName(object)}: add it to wrangler.jsonc, or take the route's tell() away.`,
    );
  return namespace.get(namespace.idFromName(name)) as unknown as EventListener;
}
