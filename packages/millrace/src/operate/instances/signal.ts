import * as z from "zod";
import { address, checkedKey } from "../../contract/address.ts";
import type { EngineEnv } from "../../contract/bindings.ts";
import { crashPoint } from "../../contract/crash-points.ts";
import { assertDeclared } from "../../contract/declared.ts";
import { MillraceError } from "../../contract/errors.ts";
import { digest, signalId } from "../../contract/ids.ts";
import { INTAKE_LIMITS } from "../../contract/limits.ts";
import { assertKnownFields, decodePayload } from "../../contract/message.ts";
import { newTrace } from "../../contract/trace.ts";
import { keyReused } from "../../intake/accept/reuse.ts";
import { type Assigned, reusedAmong, wake } from "../../signals/assign.ts";
import { query } from "../../store/d1/retry.ts";
import { lookAfterEvents } from "../../store/instances/look.ts";
import { UNDER_WAY } from "../../store/instances/status.ts";
import { insertSignalTo, selectSignals } from "../../store/signals.ts";
import { assignSent, selectOpenWaits, selectTaker } from "../../store/waits.ts";
import { instanceAct } from "./act.ts";

/** Errors: `unknown_message_type` without a signal route; `invalid_payload`, also for another subject; `idempotency_key_reused`. */
export const signal = instanceAct({
  verb: "signal",
  path: "signals/{type}",
  summary: "Send an event to one instance",
  description: [
    "The most recent wait of the instance receives the event. Without such a wait, the event is kept until one starts. No other instance receives it; use POST /v1/events for events to all consumers.",
    "It needs the scope `operate`, also for an event type that is closed to the outside, and is recorded in the audit. `Idempotency-Key` identifies the signal among those of its type to this instance. A repeat of the key is the same signal, `replayed`.",
  ].join("\n\n"),
  accepted: "Taken",
  body: {
    type: z.string(),
    payload: z.unknown().meta({ description: "The payload, by the schema of the event." }),
  },
  answer: {
    event_id: z.string().meta({ description: "The id of the event." }),
    replayed: z.boolean().meta({ description: "True for a repeat of an accepted signal, which has no effect." }),
    step: z.string().nullable().meta({
      description: "The step that received it; null if no step waits for it yet. The event is kept until then.",
    }),
  },
  key: { says: "Identifies the signal. Required except for a dry run.", isRequired: true },
  problems: ["unknown_message_type", "idempotency_key_reused"],
  maxBytes: INTAKE_LIMITS.maxBytes,
  async read({ env, catalog, instance, given: { type, payload: said } }) {
    assertDeclared(catalog !== undefined, 'Pass the catalog to send a signal: actOn(env, by, "signal", id, given, { catalog, key }).');
    const { event: definition } = catalog.subscribers(type);
    if (!catalog.signalled.has(type)) {
      throw new MillraceError(
        "unknown_message_type",
        `No run can wait for ${type}, because no route signals it. Event types with a signal() route: ${[...catalog.signalled].join(", ")}.`,
      );
    }
    const payload = decodePayload(definition, definition.version, said);
    assertKnownFields(definition, definition.version, said);
    const subject = definition.subject(payload);
    return { definition, payload, subject, taker: await takerOf(env, instance.id, type, subject) };
  },
  refused({ instance: { status, undo } }) {
    if (undo !== null) return "The instance is undone, or being undone, so it waits for no event.";
    return UNDER_WAY.has(status) ? null : `The instance is ${status}, so it waits for no event.`;
  },
  async plan({ given: { type } }, { taker: step }) {
    if (step === null)
      return { consequence: `The instance does not wait for ${type} now: the event is kept for this instance until it does.` };
    return {
      consequence: `"${step}" receives the event, and the instance continues after it.`,
      effects: [{ step, item: "", verdict: "runs" }],
    };
  },
  async change({ env, by, instance, actionId, key = "", given: { type } }, { definition, payload, subject }) {
    const eventId = digest("signal to", instance.id, type, checkedKey(type, key));
    const envelope = await address(env.PAYLOADS, definition.from(payload), {
      tenantId: by.tenantId,
      source: by.actor,
      correlationId: instance.correlation_id,
      causationId: `action/${actionId}`,
      traceparent: newTrace(),
      idempotencyKey: eventId,
      owner: eventId,
    });
    if ((await reusedAmong(env, [envelope])).size > 0) throw keyReused({ idempotency_key: key, message_type: type });
    return {
      change: insertSignalTo(instance.id, envelope),
      also: {
        waits: assignSent(instance.id, { type, subject }, signalId(envelope)),
        soon: lookAfterEvents([signalId(envelope)]),
      },
      detail: { type },
      to: "running",
      isRepeat: async () => (await query(env.DB, selectSignals([signalId(envelope)]))).length > 0,
      async done({ waits = [] }, isApplied) {
        const assigned = waits as unknown as (Assigned & { name: string })[];
        await crashPoint("operator signal stored, not sent", instance.id);
        await wake(env, assigned, [envelope]);
        const [taker] = isApplied ? assigned : await query<{ name: string }>(env.DB, selectTaker(instance.id, signalId(envelope)));
        return { event_id: eventId, replayed: !isApplied, step: taker?.name ?? null };
      },
    };
  },
});

/** The step that waits for the event; null if none does now. Errors: `invalid_payload` for an event with another subject. */
async function takerOf(env: EngineEnv, id: string, type: string, subject: string): Promise<string | null> {
  const waits = await query<{ name: string; subject: string }>(env.DB, selectOpenWaits(id, type));
  const taker = waits.find((wait) => wait.subject === subject);
  if (taker || waits.length === 0) return taker?.name ?? null;
  throw new MillraceError(
    "invalid_payload",
    `The event has the subject "${subject}", but the instance waits for the subject ${waits.map((wait) => `"${wait.subject}"`).join(", ")}.`,
    { issues: [{ path: "payload", message: "has another subject than the event that the instance waits for" }] },
  );
}
