import type { AddressGuard } from "../contract/address-guard.ts";
import { MillraceError } from "../contract/errors.ts";
import { defineStep, type StepDefinition } from "../guard/step.ts";
import { type CallbackSender, defineWorkflow } from "../workflow/workflow.ts";
import { type EndNotice, InstanceEnded, SEND_CALLBACK } from "./instance-ended.ts";
import { assertTaken, guardedUrl, signatureOf } from "./receiver.ts";
import { callbackSecret } from "./secret.ts";

/** What a deployment gives to the calling of the addresses that commands name. */
export interface CallbackOptions {
  /** Judges an address when a command names it, and before each request. Default: none is judged, as where all who ask are trusted. */
  readonly guard?: AddressGuard;
}

/** For ten hours: pauses that double from 10 seconds up to an hour. Behind that the instance has failed, and an operator retries it. */
const RETRIES = { limit: 18, delay: "10 seconds", backoff: "exponential" } as const;

/** One call: who hears of it, and whose instance it is about. */
interface Calling {
  /** Names the end: the same at every attempt, restart and retry. */
  readonly id: string;
  readonly tenantId: string;
  readonly notice: EndNotice;
}

/**
 * The workflow that tells addresses of the ends of the instances whose commands have named them, signed and tried again: give it to the
 * catalog as `callbacks`, and export its class. A receiver knows an end by `webhook-id`. No error names the address: it may hold a secret.
 */
export function callbackSender({ guard }: CallbackOptions = {}): CallbackSender {
  const call = callAddress(guard);
  const workflow = defineWorkflow({
    name: SEND_CALLBACK,
    on: InstanceEnded,
    // Most addresses answer within a second; a call that is tried again is the platform's, which waits for hours.
    steps: "lean",
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
        throw new MillraceError("unavailable", "The callback_url cannot be reached, or gave no answer in time.");
      });
      await assertTaken("The callback_url", response, {
        isFinal: (status) => status === 410,
        next: "whoever asked does not want to hear of it any more",
      });
      return { status: response.status };
    },
  });
}
