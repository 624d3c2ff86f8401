import { address, checkedKey } from "../../contract/address.ts";
import type { EngineEnv } from "../../contract/bindings.ts";
import { crashPoint } from "../../contract/crash-points.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { MillraceError } from "../../contract/errors.ts";
import { digest, signalId } from "../../contract/ids.ts";
import { assertKnownFields, decodePayload, type EventDefinition } from "../../contract/message.ts";
import { newTrace } from "../../contract/trace.ts";
import { getInstance, type Instance } from "../../inspect/instances.ts";
import { keyReused } from "../../intake/accept/reuse.ts";
import { type Assigned, reusedAmong, wake } from "../../signals/assign.ts";
import { type Action, actionIdOf, type Operator } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { lookAfterEvents } from "../../store/instances/look.ts";
import { UNDER_WAY } from "../../store/instances/status.ts";
import { insertSignalTo, selectSignals } from "../../store/signals.ts";
import { assignSent, selectOpenWaits } from "../../store/waits.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { act } from "../act.ts";
import type { ActionPlan } from "./plan.ts";

/** An event for one instance. */
export interface SignalRequest {
  type: string;
  payload: unknown;
  /** Identifies the signal among those of its type to this instance: the same key is the same signal. 1 to 500 characters. */
  idempotencyKey: string;
  reason: string;
}

export interface Signalled {
  actionId: string;
  /** The id of the stored event. */
  eventId: string;
  /** True if the same signal was accepted before and this call changed nothing. */
  replayed: boolean;
  /** The step that received it. Null if the instance does not wait for such an event yet; the event is kept until it does. */
  step: string | null;
}

type Asked = Pick<SignalRequest, "type" | "payload">;

/** Dry run: the step that would receive the signal. Errors: as `signalInstance`, except that an ended instance returns `refused`. */
export async function planSignal(env: EngineEnv, catalog: Catalog, by: Operator, instanceId: string, asked: Asked): Promise<ActionPlan> {
  const instance = await getInstance(env, by, instanceId);
  const step = await takerOf(env, instance, read(catalog, asked));
  const follows =
    step === null
      ? `The instance does not wait for ${asked.type} now: the event is kept for this instance until it does.`
      : `"${step}" receives the event, and the instance continues after it.`;
  const effects = step === null ? [] : [{ step, item: "", verdict: "runs" as const }];
  return { refused: whyRefused(instance), from: null, follows, effects };
}

/**
 * Sends an event to one instance only, once per key. The newest matching wait receives it, or else the next matching wait. Errors:
 * `instance_not_found`; `unknown_message_type` for an event without a signal route; `invalid_payload`, also for a subject that differs from
 * the awaited one; `idempotency_key_reused`; `invalid_transition` (audited as no change) if the instance has ended or is being undone.
 */
export async function signalInstance(
  env: EngineEnv,
  catalog: Catalog,
  by: Operator,
  instanceId: string,
  { idempotencyKey, reason, ...asked }: SignalRequest,
): Promise<Signalled> {
  const instance = await getInstance(env, by, instanceId);
  const event = read(catalog, asked);
  await takerOf(env, instance, event);
  const eventId = digest("signal to", instanceId, asked.type, checkedKey(asked.type, idempotencyKey));
  const actionId = actionIdOf(by);
  const envelope = await address(env.PAYLOADS, event.definition.from(event.payload), {
    tenantId: by.tenantId,
    source: by.actor,
    correlationId: instance.correlationId,
    causationId: `action/${actionId}`,
    traceparent: newTrace(),
    idempotencyKey: eventId,
    owner: eventId,
  });
  if ((await reusedAmong(env, [envelope])).size > 0) {
    throw keyReused({ idempotency_key: idempotencyKey, message_type: asked.type });
  }
  const action: Action = { id: actionId, verb: "signal", target: instanceId, instanceId, reason, detail: { type: asked.type } };
  const { isApplied, answers } = await act(env, by, action, {
    change: insertSignalTo(instanceId, envelope),
    also: {
      waits: assignSent(instanceId, { type: asked.type, subject: event.subject }, signalId(envelope)),
      soon: lookAfterEvents([signalId(envelope)]),
    },
  });
  const assigned = answers.waits as unknown as (Assigned & { name: string })[];
  const isKept = isApplied || (await isKnown(env, envelope));
  if (!isKept) {
    const now = await getInstance(env, by, instanceId);
    throw new MillraceError(
      "invalid_transition",
      whyRefused(now) ?? "Another action changed it at the same time, so nothing was done. Load it again, then decide.",
      {
        from: now.status,
        to: "running",
        audited: true,
      },
    );
  }
  await crashPoint("signal of a person kept, not sent", instanceId);
  await wake(env, assigned, [envelope]);
  return { actionId, eventId, replayed: !isApplied, step: assigned[0]?.name ?? null };
}

async function isKnown(env: EngineEnv, envelope: Envelope): Promise<boolean> {
  return (await query(env.DB, selectSignals([signalId(envelope)]))).length > 0;
}

interface Read {
  readonly definition: EventDefinition;
  readonly payload: unknown;
  readonly subject: string;
}

function read(catalog: Catalog, { type, payload: said }: Asked): Read {
  const { event: definition } = catalog.subscribers(type);
  if (!catalog.signalled.has(type)) {
    throw new MillraceError(
      "unknown_message_type",
      `No run can wait for ${type}, because no route signals it. Event types with a signal() route: ${[...catalog.signalled].join(", ")}.`,
    );
  }
  const payload = decodePayload(definition, definition.version, said);
  assertKnownFields(definition, definition.version, said);
  return { definition, payload, subject: definition.subject(payload) };
}

/** The step that waits for such an event; null if none does now. Errors: `invalid_payload` for an event with another subject. */
async function takerOf(env: EngineEnv, { id }: Instance, { definition, subject }: Read): Promise<string | null> {
  const waits = await query<{ name: string; subject: string }>(env.DB, selectOpenWaits(id, definition.type));
  const taker = waits.find((wait) => wait.subject === subject);
  if (taker || waits.length === 0) return taker?.name ?? null;
  throw new MillraceError(
    "invalid_payload",
    `The event has the subject "${subject}", but the instance waits for the subject ${waits.map((wait) => `"${wait.subject}"`).join(", ")}.`,
    { issues: [{ path: "payload", message: "has another subject than the event that the instance waits for" }] },
  );
}

function whyRefused({ status, undo }: Instance): string | null {
  if (undo !== null) return "The instance is undone, or being undone, so it waits for no event.";
  return UNDER_WAY.has(status) ? null : `The instance is ${status}, so it waits for no event.`;
}
