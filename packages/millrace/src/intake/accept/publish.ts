import { address, checkedKey } from "../../contract/address.ts";
import { assertReady, assertSendable, type EngineEnv } from "../../contract/bindings.ts";
import { crashPoint } from "../../contract/crash-points.ts";
import { MillraceError } from "../../contract/errors.ts";
import { assertKnownFields, draftOf } from "../../contract/message.ts";
import { queueFor } from "../../contract/queue.ts";
import { nextHop } from "../../contract/trace.ts";
import { traceAccepted } from "../../observe/traces/message.ts";
import { relay } from "../../recorder/relay.ts";
import { acceptingCell } from "../../store/cells.ts";
import { namedBatch } from "../../store/d1/named.ts";
import { type KnownEvent, selectStated } from "../../store/stated-events.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { hideIn } from "../../topology/marks.ts";
import { assertNoEnd } from "./ends.ts";
import { asRefusal, type Requester, type UntypedRequest } from "./enqueue.ts";
import { keyReused } from "./reuse.ts";
import { insertStated, isRepeat, type Statable, statable, statedId } from "./stated.ts";

/** An event published by an external caller. */
export interface EventRequest extends Omit<UntypedRequest, "delaySeconds" | "idempotencyKey" | "tags"> {
  /**
   * The key that identifies the event among events of its type, 1 to 500 characters. Two requests with the same key mean the same event.
   */
  idempotencyKey: string;
  /**
   * True: the record of the key omits the correlation id, which may mention a person. The record of the key is kept longer than the event.
   * A repeat then gets the event's id instead of the correlation id.
   */
  uncorrelated?: boolean;
}

export interface Stated {
  /**
   * The id of the event. The id is also the causation id of the event's consequences, and the idempotency key of each instance that the
   * event starts.
   */
  eventId: string;
  /** True when the same event had been accepted before. Then this request has no consequences. */
  replayed: boolean;
  correlationId: string;
}

/**
 * Accepts events from outside. The events' keys and messages are committed in one round trip, then the messages are sent. An accepted event
 * reaches its consumers even if this process dies before sending the event's message. Returns one result or error per request, in the order
 * of the requests. A refused event changes nothing. The caller must check the authorization (`assertMayState`).
 *
 * Errors per item: `unknown_message_type`, `invalid_payload`, `idempotency_key_reused`, and `config_invalid` for a missing binding or
 * `MILLRACE_KEY`.
 */
export async function publishEvents(
  env: EngineEnv,
  catalog: Catalog,
  by: Requester,
  requests: readonly EventRequest[],
): Promise<(Stated | MillraceError)[]> {
  const own = await acceptingCell(env, by.tenantId);
  const prepared = await Promise.all(requests.map((request) => prepare(own, catalog, by, request).catch(asRefusal)));
  const asked = prepared.filter((one): one is Statable => !(one instanceof MillraceError));
  if (asked.length === 0) return prepared as MillraceError[];
  const startedAt = Date.now();

  // If several events in one request have equal keys, only the first event is accepted, as if each event had a separate request.
  const firsts = asked.filter((one, index) => asked.findIndex(({ id }) => id === one.id) === index);
  await crashPoint("A01 before an event commits");
  const written = await namedBatch(own.DB, { ...insertStated(firsts), known: selectStated(firsts.map(({ id }) => id)) });
  const fresh = new Set(written.fresh.map(({ id }) => String(id)));
  const known = new Map((written.known as unknown as KnownEvent[]).map((row) => [row.id, row]));
  await crashPoint("A03 event committed, not sent");

  await relay(
    env,
    firsts.filter(({ id }) => fresh.has(id)).map(({ message }) => message),
  );
  await crashPoint("A02 event committed, not answered");

  return prepared.map((one, index) => {
    if (one instanceof MillraceError) return one;
    const row = known.get(one.id);
    if (row === undefined || !isRepeat(one, row)) {
      const idempotency_key = requests[index]?.idempotencyKey ?? "";
      return keyReused({ idempotency_key, message_type: one.envelope.message_type });
    }
    // Of several equal events, also within one request, only the first event is new. All later events are reported as repeats.
    const replayed = !fresh.delete(one.id);
    const { envelope, message } = one;
    traceAccepted(env, {
      request: requests[index] ?? {},
      envelope,
      queue: message.queue,
      outcome: replayed ? "duplicate" : "accepted",
      startedAt,
      hide: hideIn(catalog, message.queue, envelope),
    });
    return { eventId: one.id, replayed, correlationId: row.correlation_id ?? one.id };
  });
}

async function prepare(env: EngineEnv, catalog: Catalog, by: Requester, request: EventRequest): Promise<Statable> {
  const { event: definition } = catalog.subscribers(request.type);
  assertReady(env);
  assertSendable(env, definition.queue);
  assertNoEnd(request);
  const version = request.schemaVersion ?? definition.version;
  const draft = draftOf(definition, version, request.payload);
  if (request.exact) assertKnownFields(definition, version, request.payload);
  const id = statedId(by.tenantId, definition.type, checkedKey(definition.type, request.idempotencyKey));
  const envelope = await address(env.PAYLOADS, draft, {
    tenantId: by.tenantId,
    source: by.source,
    correlationId: request.correlationId ?? id,
    causationId: request.causationId ?? `request/${crypto.randomUUID()}`,
    ...nextHop(request),
    idempotencyKey: id,
    owner: id,
  });
  return statable(id, envelope, queueFor(definition.queue, envelope), request);
}
