import { createHmac } from "node:crypto";
import * as z from "zod";
import { address } from "../contract/address.ts";
import { type AddressGuard, MAX_ADDRESS_CHARACTERS } from "../contract/address-guard.ts";
import { type EngineEnv, isBound, SEND_CALLBACK } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import type { Elsewhere } from "../contract/elsewhere.ts";
import { MillraceError } from "../contract/errors.ts";
import { assertSecret } from "../contract/ids.ts";
import { defineEvent } from "../contract/message.ts";
import { defineQueue } from "../contract/queue.ts";
import { nextHop } from "../contract/trace.ts";
import type { Portion } from "../contract/within.ts";
import { defineStep, type StepDefinition } from "../guard/step.ts";
import { type Acceptance, acceptance, acceptanceChunks } from "../intake/accept/accept.ts";
import { startInstances } from "../recorder/start.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { takeIn } from "../store/instances/accept.ts";
import { noteCalled, type OwedCall, selectOwed } from "../store/instances/callback.ts";
import { OVER } from "../store/instances/status.ts";
import { type CallbackSender, defineWorkflow } from "../workflow/workflow.ts";
import { assertTaken, guardedUrl, signatureOf } from "./receiver.ts";

export interface CallbackOptions {
  /**
   * Checks an address when a command is accepted, and before each request. Default: no check, for deployments with trusted callers only.
   */
  readonly guard?: AddressGuard;
}

/**
 * Retries for about ten hours: delays double from 10 seconds up to an hour. After the last retry the instance has failed, and an operator
 * can retry the instance.
 */
const RETRIES = { limit: 18, delay: "10 seconds", backoff: "exponential" } as const;

interface Calling {
  /** The id of the instance's end. The id is the same for every attempt, restart and retry. */
  readonly id: string;
  readonly tenantId: string;
  readonly notice: EndNotice;
}

/**
 * The workflow that reports the end of an instance to its command's `callback_url`, signed and with retries. Pass the workflow to the
 * catalog as `callbacks`, and export the workflow's class. Receivers deduplicate by `webhook-id`. No error contains the address, because
 * the address may contain a secret.
 */
export function callbackSender({ guard }: CallbackOptions = {}): CallbackSender {
  const call = callAddress(guard);
  const workflow = defineWorkflow({
    name: SEND_CALLBACK,
    on: InstanceEnded,
    // The first attempt runs inline, because most receivers answer within a second. Retries use the platform's steps, which can wait for
    // hours.
    steps: "inline",
    async run({ payload: notice, step, envelope: { idempotency_key: id, tenant_id: tenantId } }) {
      return step.effect("call back", call, { id, tenantId, notice });
    },
  });
  return { ...workflow, guard };
}

function callAddress(guard: AddressGuard | undefined): StepDefinition<Calling, { status: number }> {
  return defineStep<Calling, { status: number }>({
    effect: "keyed",
    key: ({ id }) => id,
    retries: RETRIES,
    run: async ({ input: { tenantId, notice }, key, fetch, env, signal }) => {
      const { callback_url: address, ...data } = notice;
      const url = guard === undefined ? new URL(address) : guardedUrl(await guard(env, address), "the callback_url");
      const body = JSON.stringify({ type: InstanceEnded.type, timestamp: notice.ended_at, data });
      const secret = callbackSecret((env as unknown as { MILLRACE_KEY: string }).MILLRACE_KEY, tenantId);
      const headers = { "content-type": "application/json", "user-agent": "Millrace", ...signatureOf(secret, key, body) };
      const response = await fetch(url, { method: "POST", headers, body, redirect: "manual", signal }).catch(() => {
        throw new MillraceError("unavailable", "The callback_url is unreachable, or did not respond in time.");
      });
      await assertTaken("The callback_url", response, {
        isFinal: (status) => status === 410,
        next: "the receiver has ended its callbacks",
      });
      return { status: response.status };
    },
  });
}

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

const at = z.iso.datetime();

/**
 * Reports to the address of a callback that a run of an instance has ended. The callback contains no payload, result or error message,
 * because authorized callers read these from the API. The event uses no queue, because the instance that sends the callback is accepted and
 * started directly.
 */
const InstanceEnded = defineEvent({
  type: "instance.ended",
  payload: z.object({
    callback_url: z.string().max(MAX_ADDRESS_CHARACTERS),
    instance_id: z.string(),
    /** The number of the run. An operator's retry or undo starts the run with the next number. */
    run: z.int(),
    status: z.enum(OVER.values as [string, ...string[]]),
    workflow: z.string(),
    message_type: z.string(),
    idempotency_key: z.string(),
    correlation_id: z.string(),
    subject: z.string(),
    /** The failed step and the error code; null for a run that did not fail. */
    error: z.object({ step: z.string(), code: z.string() }).nullable(),
    /** True when the undo of the instance is complete. */
    undone: z.boolean(),
    accepted_at: at,
    ended_at: at,
  }),
  subject: ({ instance_id }) => instance_id,
  queue: defineQueue({ name: "callbacks" }),
});

/** The id of an instance's end, which is the idempotency key of the callback and the `webhook-id` that the receiver gets. */
export function nameOfEnd({ id, run, status }: { readonly id: string; readonly run: number; readonly status: string }): string {
  return `${id}-${run}-${status}`;
}

type EndNotice = z.infer<typeof InstanceEnded.payload>;

/**
 * The secret that signs a tenant's callbacks, in the form of Standard Webhooks: `whsec_` and 32 bytes in base64. The secret is derived from
 * the deployment's key on each use, so that the secret changes only with that key. Errors: `config_invalid` without a key.
 */
export function callbackSecret(key: string, tenantId: string): string {
  assertSecret(key);
  const parts = JSON.stringify(["callback secret", tenantId]);
  return `whsec_${createHmac("sha256", key).update(parts).digest("base64")}`;
}
