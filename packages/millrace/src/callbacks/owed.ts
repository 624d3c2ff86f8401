import { address } from "../contract/address.ts";
import { type EngineEnv, isBound, SEND_CALLBACK } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import type { Elsewhere } from "../contract/elsewhere.ts";
import type { Portion } from "../contract/patience.ts";
import { nextHop } from "../contract/trace.ts";
import { type Acceptance, acceptance, acceptanceChunks } from "../intake/accept/accept.ts";
import { startInstances } from "../recorder/start.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { takeIn } from "../store/instances/accept.ts";
import { noteCalled, type OwedCall, selectOwed } from "../store/instances/callback.ts";
import { InstanceEnded, nameOfEnd } from "./instance-ended.ts";

/** Maximum number of callbacks that are accepted in one write. */
const CALLS = 100;

/**
 * Accepts the owed callbacks, each as an instance with the end's id as key, in one write that also marks the callbacks as no longer owed.
 * Then starts the instances. A crash before the write leaves the callbacks owed. If the process dies after the write, the keeper starts the
 * instances. Concurrent calls accept each callback once.
 */
export async function callOwed(env: EngineEnv, elsewhere: Elsewhere): Promise<Portion> {
  if (!isBound(env, SEND_CALLBACK, elsewhere)) return { did: 0, more: false };
  const owed = await query<OwedCall>(env.DB, selectOwed(CALLS));
  if (owed.length === 0) return { did: 0, more: false };
  const calls = await Promise.all(owed.map((one) => callOf(env, one)));
  const written = await atomically(env.DB, [...acceptanceChunks(calls).map(takeIn), noteCalled(owed)]);
  await crashPoint("callback stored, not started");
  const held = new Set(written.flatMap((rows) => rows.flatMap((row) => (row.held === 1 ? row.id : []))));
  await startInstances(
    env,
    calls.filter(({ id }) => !held.has(id)),
    "first",
  );
  return { did: owed.length, more: owed.length === CALLS };
}

/** The tenant and the correlation id of a callback come from the instance's row, not from its message. */
async function callOf(env: EngineEnv, owed: OwedCall): Promise<Acceptance> {
  const { id, run, status, error, undone, callback_url, tenant_id, traceparent, tracestate, accepted_at, ended_at, ...named } = owed;
  const { step = "", code = "" } = error === null ? {} : (JSON.parse(error) as { step?: string; code?: string });
  const notice = InstanceEnded.from({
    callback_url,
    instance_id: id,
    run,
    status,
    ...named,
    error: error === null ? null : { step, code },
    undone: undone === 1,
    accepted_at: new Date(accepted_at).toISOString(),
    ended_at: new Date(ended_at).toISOString(),
  });
  const name = nameOfEnd(owed);
  const envelope = await address(env.PAYLOADS, notice, {
    tenantId: tenant_id,
    source: "keeper",
    correlationId: named.correlation_id,
    causationId: `${id}/end`,
    ...nextHop({ traceparent, tracestate }),
    idempotencyKey: name,
    owner: `callback-${name}`,
  });
  return acceptance({ name: SEND_CALLBACK }, envelope, null);
}
