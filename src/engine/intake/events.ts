import { address } from "../contract/address.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { type Envelope, envelopeSchema } from "../contract/envelope.ts";
import { messageId } from "../contract/ids.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { unpackPayload } from "../contract/payload.ts";
import type { QueueDefinition } from "../contract/queue.ts";
import { mergeRows, type RowStatement, rowChunks } from "../contract/sql.ts";
import { nextHop } from "../contract/trace.ts";
import { relay } from "../recorder/relay.ts";
import { type Assigned, assignSignals, insertSignals, wake } from "../signals/assign.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { Routed, Target } from "../topology/routes.ts";
import { type Acceptance, acceptance, insertAccepted, outgoing } from "./accept.ts";
import { type Consumer, type Outcome, settle } from "./batch.ts";
import { deadLetter } from "./capture.ts";
import { type ReadMessage, readMessages } from "./read.ts";
import { startInstances } from "./start.ts";
import { captureReused, takeBatchIn } from "./take.ts";

/**
 * The consumer of an event queue: parse, route, take in, then start, send and wake, settle. Events of a whole batch share
 * one round trip to D1, projected rows included. Code is called before the event is confirmed, so that an event whose call failed comes back.
 */
export function consumeEvents(queue: QueueDefinition, catalog: Catalog): Consumer {
  return {
    queue: queue.name,
    async handle(batch, env) {
      const outcomes = new Map<Message, Outcome>();
      try {
        const { read, refused } = readMessages(batch.messages, (type) => catalog.subscribers(type).event);
        const once = memo();
        const plans = await Promise.all(read.map((one) => planOf(env, catalog, one, once)));
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
          also: [...signalStatements, ...commandRows.map(insertAccepted), ...mergeRows(planned.flatMap((plan) => plan.rows))],
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
          "first",
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
        const captured = refused.flatMap(({ message }) => envelopeSchema.safeParse(message.body).data ?? []);
        await catalog.confirm(env, [...planned.map((plan) => plan.envelope), ...captured]);
      } catch (error) {
        for (const message of batch.messages) if (!outcomes.has(message)) outcomes.set(message, { did: "retried", error });
      }
      settle(batch, queue, outcomes);
    },
  };
}

/** What one event leads to: instances to start, commands to send, rows to keep, a signal. */
interface Plan {
  readonly message: Message;
  readonly envelope: Envelope;
  readonly instances: readonly Acceptance[];
  readonly rows: readonly RowStatement[];
  readonly signals: boolean;
}

async function planOf(
  env: EngineEnv,
  catalog: Catalog,
  { message, envelope, definition, payload: inline }: ReadMessage,
  once: Routed<unknown>["once"],
): Promise<Plan | { message: Message; error: unknown }> {
  try {
    const { targets } = catalog.subscribers(definition.type);
    const readsPayload = targets.some((target) => target.do !== "start" && target.do !== "signal");
    const fetches = readsPayload && envelope.payload_ref !== undefined;
    const payload = fetches ? await unpackPayload(env.PAYLOADS, definition, envelope) : inline;
    const event: Routed<unknown> = { payload, envelope, env: env as unknown as Cloudflare.Env, once };
    const followed = await Promise.all(targets.map((target) => follow(env, catalog, target, event)));
    return {
      message,
      envelope,
      instances: followed.flatMap(({ instances = [] }) => instances),
      rows: followed.flatMap(({ rows = [] }) => rows),
      signals: targets.some((target) => target.do === "signal"),
    };
  } catch (error) {
    return { message, error };
  }
}

/** Runs a target's code and answers what it leads to: instances, and rows that are kept with them. */
async function follow(
  env: EngineEnv,
  catalog: Catalog,
  target: Target,
  event: Routed<unknown>,
): Promise<{ instances?: Acceptance[]; rows?: RowStatement[] }> {
  switch (target.do) {
    case "start":
      return { instances: [acceptance(target.workflow.name, event.envelope, null)] };
    case "send": {
      const { command, row } = target;
      const payloads = await target.payloads(event);
      const instances = await Promise.all(payloads.map((payload) => commandAfter(env, catalog, command, payload, event.envelope)));
      const rows = row && instances.map(({ id, envelope }, index) => row({ payload: payloads[index], envelope, instanceId: id }));
      return { instances, ...(rows && { rows }) };
    }
    case "project": {
      const row = target.row(event);
      return row ? { rows: [row] } : {};
    }
    case "call":
      await target.handler(event);
      return {};
    case "signal":
      return {};
  }
}

/** A command that an event leads to: its correlation carried on, the event as its cause. */
async function commandAfter(
  env: EngineEnv,
  catalog: Catalog,
  command: MessageDefinition,
  payload: unknown,
  event: Envelope,
): Promise<Acceptance> {
  const draft = command.from(payload);
  const envelope = await address(env.PAYLOADS, draft, {
    tenantId: event.tenant_id,
    source: "router",
    correlationId: event.correlation_id,
    causationId: event.idempotency_key,
    traceparent: nextHop(event.traceparent),
    owner: `${messageId(event)}-${command.type}`,
  });
  return acceptance(catalog.performer(command.type).name, envelope, command.queue.name, draft.delaySeconds);
}

/** Remembers what was made under a name, for as long as the batch is handled. One that failed is made anew by the next who asks. */
function memo(): Routed<unknown>["once"] {
  const made = new Map<string, Promise<unknown>>();
  return <T>(name: string, make: () => Promise<T>): Promise<T> => {
    const known = made.get(name) as Promise<T> | undefined;
    if (known) return known;
    const making = make();
    made.set(name, making);
    making.catch(() => made.delete(name));
    return making;
  };
}
