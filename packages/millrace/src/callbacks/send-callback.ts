import type { AddressGuard } from "../contract/address-guard.ts";
import { SEND_CALLBACK } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { defineStep, type StepDefinition } from "../guard/step.ts";
import { type CallbackSender, defineWorkflow } from "../workflow/workflow.ts";
import { type EndNotice, InstanceEnded } from "./instance-ended.ts";
import { assertTaken, guardedUrl, signatureOf } from "./receiver.ts";
import { callbackSecret } from "./secret.ts";

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
