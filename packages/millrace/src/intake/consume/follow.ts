import { address } from "../../contract/address.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { MillraceError } from "../../contract/errors.ts";
import { messageId } from "../../contract/ids.ts";
import { checkedDelay, type Draft } from "../../contract/message.ts";
import { unpackPayload } from "../../contract/payload.ts";
import { queueFor, staggered } from "../../contract/queue.ts";
import type { RowStatement } from "../../contract/sql.ts";
import { nextHop } from "../../contract/trace.ts";
import { within } from "../../contract/within.ts";
import { assertWellFormed, bindable } from "../../store/d1/bindable.ts";
import { assertFewHops } from "../../topology/hops.ts";
import type { Routed, Target } from "../../topology/routes.ts";
import { type Acceptance, acceptance } from "../accept/accept.ts";
import type { Intake } from "../consumer.ts";
import type { Plan } from "./plan.ts";
import type { ReadMessage } from "./read.ts";

/** What the code of a route threw: its event failed of itself, whatever the error is called. */
export class ThrownByRoute {
  constructor(readonly error: unknown) {}
}

async function ofRoute<T>(code: () => T): Promise<Awaited<T>> {
  try {
    return await code();
  } catch (error) {
    throw new ThrownByRoute(error);
  }
}

/** Works out what one event leads to, and calls the code that its routes name. Throws `ThrownByRoute` with what that threw. */
export async function follow(
  intake: Intake,
  { message, envelope, definition, payload: inline }: ReadMessage,
  once: Routed<unknown>["once"],
): Promise<Plan> {
  const { env, catalog } = intake;
  const { targets } = catalog.subscribers(definition.type);
  // A run checks the payload it is started with. A wait takes one event for ever, so what is no such event must not get there.
  const readsPayload = targets.some((target) => target.do !== "start");
  const fetches = readsPayload && envelope.payload_ref !== undefined;
  const payload = fetches ? await unpackPayload(env.PAYLOADS, definition, envelope) : inline;
  // One route's code changes nothing for the others.
  const event: Routed<unknown> = {
    payload: frozen(payload),
    envelope: Object.freeze({ ...envelope }),
    env: env as unknown as Cloudflare.Env,
    once,
  };
  const followed = await Promise.all(targets.map((target) => inTime(followTarget(intake, target, event), target, envelope.message_type)));
  const all = followed.flatMap(({ instances = [] }) => instances);
  const rows = followed.flatMap(({ rows = [] }) => rows);
  // Looked at here, what cannot be written is this event's trouble alone.
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
  };
}

/** Instances and rows that are kept with an event. */
interface Followed {
  readonly instances?: Acceptance[];
  readonly rows?: RowStatement[];
}

async function followTarget(intake: Intake, target: Target, event: Routed<unknown>): Promise<Followed> {
  switch (target.do) {
    case "start":
      assertFewHops(intake.catalog, target.workflow.name, event.envelope);
      return { instances: [acceptance(target.workflow, event.envelope, null)] };
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

/** Code that never answers holds up its own event alone, and that not for ever: it comes back, and the code may run beside itself then. */
function inTime<T>(following: Promise<T>, target: Target, type: string): Promise<T> {
  if (target.do !== "call" && target.do !== "send") return following;
  const { limitMs } = target;
  const said = `What the routes ${target.do} for ${type} did not answer within ${limitMs} ms. The event comes back: look at what it waits for, or give it more time.`;
  return within(following, limitMs, () => new MillraceError("route_timeout", said));
}

/** A command that an event leads to: its tenant is the event's, its correlation carried on, the event its cause. */
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
  return acceptance(workflow, envelope, queueFor(draft.queue, envelope), delaySeconds);
}

/** Remembers what was made under a name, for as long as the batch is handled. One that failed is made anew by the next who asks. */
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
