import { address } from "../../contract/address.ts";
import { assertFewHops, type Envelope } from "../../contract/envelope.ts";
import { MillraceError } from "../../contract/errors.ts";
import { hasFlow } from "../../contract/flow.ts";
import { messageId } from "../../contract/ids.ts";
import { checkedDelay, type Draft } from "../../contract/message.ts";
import { unpackPayload } from "../../contract/payload.ts";
import { queueFor, staggered } from "../../contract/queue.ts";
import type { RowStatement } from "../../contract/sql.ts";
import { nextHop } from "../../contract/trace.ts";
import { within } from "../../contract/within.ts";
import { assertWellFormed, bindable } from "../../store/d1/bindable.ts";
import type { Routed, Target } from "../../topology/routes.ts";
import { type Acceptance, acceptance } from "../accept/accept.ts";
import type { Intake, Outcome } from "../consumer.ts";
import type { Plan } from "./plan.ts";
import type { ReadMessage } from "./read.ts";

/** An error thrown by a route's code. Such an error counts as a failed try of the event, independent of the error code. */
class ThrownByRoute {
  constructor(readonly error: unknown) {}
}

/** The outcome of an event whose planning or code has thrown. */
export function failedBy(thrown: unknown): Outcome {
  const isRoutes = thrown instanceof ThrownByRoute;
  return { did: "retried", error: isRoutes ? thrown.error : thrown, isRoutes };
}

async function ofRoute<T>(code: () => T): Promise<Awaited<T>> {
  try {
    return await code();
  } catch (error) {
    throw new ThrownByRoute(error);
  }
}

/**
 * Plans one event, and calls the code of its routes that runs before the commit. An error of the route's code is thrown as `ThrownByRoute`.
 */
export async function follow(
  intake: Intake,
  { message, envelope, definition, payload: inline }: ReadMessage,
  once: Routed<unknown>["once"],
): Promise<Plan> {
  const { env, catalog } = intake;
  const { targets } = catalog.subscribers(definition.type);
  // An instance validates its payload at its start, but a wait does not. Therefore an event's payload is validated before the event is
  // stored.
  const readsPayload = targets.some((target) => target.do !== "start" || hasFlow(target.workflow.name));
  const fetches = readsPayload && envelope.payload_ref !== undefined;
  const payload = fetches ? await unpackPayload(env.PAYLOADS, definition, envelope) : inline;
  // The event is frozen, so that no route can change the event for other routes.
  const event: Routed<unknown> = {
    payload: frozen(payload),
    envelope: Object.freeze({ ...envelope }),
    env: env as unknown as Cloudflare.Env,
    once,
  };
  const inTurn = (target: Target) => inTime(followTarget(intake, target, event), target, envelope.message_type);
  const isLate = (target: Target) => target.do === "call" && target.isLate;
  const followed = await Promise.all(targets.filter((target) => !isLate(target)).map(inTurn));
  const all = followed.flatMap(({ instances = [] }) => instances);
  const rows = followed.flatMap(({ rows = [] }) => rows);
  // Rows are validated before the commit, so that an invalid row fails only this event and not the batch.
  for (const row of rows) {
    assertWellFormed(row);
    bindable(row);
  }
  return {
    message,
    envelope,
    instances: all.filter(({ queue }) => queue === null),
    commands: all.filter(({ queue }) => queue !== null),
    rows,
    signal: targets.some((target) => target.do === "signal"),
    after: targets.filter(isLate).map((target) => () => inTurn(target)),
  };
}

/** Instances and rows that are committed with an event. */
interface Followed {
  readonly instances?: Acceptance[];
  readonly rows?: RowStatement[];
}

async function followTarget(intake: Intake, target: Target, event: Routed<unknown>): Promise<Followed> {
  switch (target.do) {
    case "start":
      assertFewHops(intake.catalog, target.workflow.name, event.envelope);
      return { instances: [acceptance(target.workflow, event.envelope, null, { payload: event.payload })] };
    case "send": {
      const { command, row, ratePerSecond } = target;
      const payloads = await ofRoute(() => target.payloads(event));
      const instances = await Promise.all(
        payloads.map((payload, index) => commandAfter(intake, command.from(payload), event.envelope, staggered(index, ratePerSecond))),
      );
      const sentOf = ({ id, envelope }: Acceptance, index: number) => ({ payload: payloads[index], envelope, instanceId: id });
      const rows = row && (await ofRoute(() => instances.map((one, index) => row(sentOf(one, index)))));
      return { instances, ...(rows && { rows }) };
    }
    case "project": {
      const row = await ofRoute(() => target.row(event));
      return row ? { rows: [row] } : {};
    }
    case "call":
      await ofRoute(() => target.handler(event));
      return {};
    case "signal":
      return {};
  }
}

/**
 * Rejects when a route's code exceeds its time limit. A hanging call delays only its own event. The event is redelivered, although the
 * hanging call may still be running.
 */
function inTime<T>(following: Promise<T>, target: Target, type: string): Promise<T> {
  if (target.do !== "call" && target.do !== "send") return following;
  const { limitMs } = target;
  const said = `The code of ${target.do}() for ${type} did not finish within ${limitMs} ms. The event is retried: find the slow call in the code, or increase the timeout.`;
  return within(following, limitMs, () => new MillraceError("route_timeout", said));
}

/** A command that a route derives from an event. The command gets the event's tenant and correlation id, and the event as its cause. */
async function commandAfter({ env, catalog }: Intake, draft: Draft, event: Envelope, laterSeconds: number): Promise<Acceptance> {
  const workflow = catalog.performer(draft.type);
  assertFewHops(catalog, workflow.name, event);
  const envelope = await address(env.PAYLOADS, draft, {
    tenantId: event.tenant_id,
    source: "router",
    correlationId: event.correlation_id,
    causationId: event.idempotency_key,
    ...nextHop(event),
    path: event.path,
    owner: `${messageId(event)}-${draft.type}`,
  });
  const delaySeconds = checkedDelay(draft.delaySeconds + laterSeconds);
  return acceptance(workflow, envelope, queueFor(draft.queue, envelope), { delaySeconds, payload: draft.payload });
}

/** Caches results by name while the batch is handled. A failed result is not cached. */
export function memo(): Routed<unknown>["once"] {
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

function frozen<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) frozen(inner);
  return Object.freeze(value);
}
