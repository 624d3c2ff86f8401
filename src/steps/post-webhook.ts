import {
  atomically,
  defineStep,
  type EffectCall,
  errors,
  logLine,
  MillraceError,
  notRetryable,
  retryAfter,
  upstreamRefused,
} from "millrace";
import { instances } from "millrace/operate";
import { Webhook } from "standardwebhooks";
import { WebhookDeliver } from "../messages/webhooks.ts";
import { type Attempt, type Delivery, logAttempt, type Target, targetOf } from "../systems/webhooks/deliveries.ts";
import { type CheckedTarget, checkTarget } from "../systems/webhooks/guard.ts";
import { secretOf } from "../systems/webhooks/secret.ts";
import { timeoutMs } from "../systems/webhooks/settings.ts";

/**
 * The result of a delivery without an error. The receiver accepted or permanently refused the delivery, or the delivery was skipped because
 * its endpoint is disabled or deleted.
 */
export type Posted = { state: "sent" | "gone"; attempt: Attempt } | { state: "skipped"; why: string } | { state: "off" };

/**
 * The reason for skipping a delivery if its fact mentions a person, and that person's data was erased while the delivery's endpoint was
 * disabled.
 */
const NAMES_A_FORGOTTEN =
  "The delivery mentioned a person whose data was erased while the endpoint was disabled. A redelivery has a pseudonym instead.";
/** Maximum bytes of a response that are read and stored. */
const ANSWER_BYTES = 1024;
/** Maximum delay before the next attempt that a receiver can request. */
const MAX_ASKED_MS = 3_600_000;
/** Time limit for reading the response's body. The limit is short, because only the status decides the result. */
const ANSWER_READ_MS = 2000;
/** How long the data that was read about the endpoint is valid. If the DNS check takes longer, the endpoint is read again. */
const CURRENT_MS = 100;

/**
 * Posts a delivery's body to its endpoint, signed with every valid secret. The effect class of the step is `keyed`. The key is
 * `webhook-id`, which is the delivery's id in every attempt, restart and retry. Therefore a receiver that remembers ids processes the
 * delivery once. A failed attempt is logged here. The log entry of a successful attempt is written with the step's record.
 */
export const postWebhook = defineStep({
  effect: "keyed",
  key: ({ id }: Delivery) => id,
  retries: { limit: 5, delay: "10 seconds", backoff: "exponential" },
  timeout: "30 seconds",
  run: async ({ input: delivery, key, fetch, signal, env }: EffectCall<Delivery>): Promise<Posted> => {
    const began = Date.now();
    const { target, ready } = await aim(env, delivery);
    if (target?.isSkipped) return { state: "skipped", why: NAMES_A_FORGOTTEN };
    if (target?.state === "disabled") return { state: "off" };
    if (target?.state !== "enabled" || !ready) return { state: "skipped", why: "The endpoint is deleted." };
    const line: Attempt = {
      attempt: target.tried + 1,
      at: new Date().toISOString(),
      version: target.version,
      status: null,
      answer: null,
      error: null,
      ms: 0,
    };
    try {
      await post({ env, key, fetch, signal }, delivery, { ...target, ...ready }, line);
      return { state: line.status === 410 ? "gone" : "sent", attempt: { ...line, ms: Date.now() - began } };
    } catch (error) {
      const failed = { ...line, error: errors.messageOf(error), ms: Date.now() - began };
      // If the write of the log fails, the step still throws the delivery's own error.
      await atomically(env.DB, [logAttempt(delivery.tenant_id, delivery.id, failed)]).catch((unlogged) =>
        logLine("error", { log: "webhook_attempt_not_logged", delivery_id: delivery.id, error: errors.messageOf(unlogged) }),
      );
      throw error;
    }
  },
});

/** A request that is ready to send: the checked URL of a delivery's endpoint, and the delivery's body. */
interface Ready {
  checked: CheckedTarget;
  body: string | undefined;
}

/**
 * Reads a delivery's endpoint and prepares the request. The DNS check may be slow, so the endpoint is read again if its URL or secret may
 * have changed during the check.
 */
async function aim(env: Cloudflare.Env, delivery: Delivery): Promise<{ target: Target | undefined; ready?: Ready }> {
  let seen: (Ready & { url: string }) | undefined;
  for (;;) {
    const target = await targetOf(env.DB, delivery);
    if (target?.state !== "enabled" || target.isSkipped) return { target };
    if (target.url === seen?.url) return { target, ready: seen };
    const askedAt = Date.now();
    const body = seen ? seen.body : (delivery.body ?? bodyOf(env, delivery));
    const [checked, said] = await Promise.all([checkTarget(env, target.url), body]);
    seen = { url: target.url, checked, body: said };
    if (Date.now() - askedAt <= CURRENT_MS) return { target, ready: seen };
  }
}

/**
 * Sends one request to the receiver and records the response in the log entry. The function returns after a response with status 2xx or
 * 410, and throws after any other response.
 */
async function post(
  { env, key, fetch, signal }: Pick<EffectCall<Delivery>, "env" | "key" | "fetch" | "signal">,
  delivery: Delivery,
  { checked, body, generations }: Target & Ready,
  line: Attempt,
): Promise<void> {
  if (body === undefined) throw notRetryable("Not sent: its body is no longer stored.");
  if (checked.verdict === "refused") throw notRetryable(`Not sent: the URL ${checked.reason}.`);
  if (checked.verdict === "unknown") throw new MillraceError("unavailable", `Not sent: ${checked.reason}.`);
  const inTime = AbortSignal.timeout(timeoutMs(env));
  const response = await fetch(checked.url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "user-agent": "Millrace",
      ...signed(env.MILLRACE_KEY, key, { ...delivery, body }, generations),
    },
    body,
    redirect: "manual",
    signal: inTime,
  }).catch(() => {
    const late = inTime.aborted || signal.aborted;
    throw new MillraceError(
      "unavailable",
      late
        ? `The receiver did not respond within ${timeoutMs(env) / 1000} s.`
        : "The receiver cannot be reached, or closed the connection.",
    );
  });
  line.status = response.status;
  line.answer = await beginningOf(response);
  if (response.ok || response.status === 410) return;
  const said = `The receiver answered ${response.status}`;
  if (response.status >= 300 && response.status < 400) {
    throw upstreamRefused(`${said}: redirects are not followed. Register its target URL.`, response.status);
  }
  const asked = errors.retryAfterMs(response.headers.get("retry-after"));
  const delayMs = asked && Math.min(asked, MAX_ASKED_MS);
  if (delayMs !== undefined) throw retryAfter(delayMs, `${said} and asked for ${Math.ceil(delayMs / 1000)} seconds.`, response.status);
  throw upstreamRefused(`${said}.`, response.status);
}

/** Reads the original body of a redelivery. */
async function bodyOf(env: Cloudflare.Env, { tenant_id, id }: Delivery): Promise<string | undefined> {
  return (await instances.payload(env, { tenantId: tenant_id }, WebhookDeliver, id))?.body;
}

/**
 * Returns the headers of Standard Webhooks. They contain the time of this attempt and a signature for each secret. The signature of the
 * newest secret is first.
 */
function signed(
  secret: string,
  id: string,
  { tenant_id, endpoint_id, body }: Delivery & { body: string },
  generations: readonly number[],
): Record<string, string> {
  const at = new Date();
  const signatures = generations.map((one) => new Webhook(secretOf(secret, tenant_id, endpoint_id, one)).sign(id, at, body));
  return {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    "webhook-signature": signatures.join(" "),
  };
}

/** Reads the first bytes of a response as text. The size and the time of the read are limited. */
async function beginningOf(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (!reader) return "";
  const give = setTimeout(() => reader.cancel().catch(() => undefined), ANSWER_READ_MS);
  const read: Uint8Array[] = [];
  let bytes = 0;
  try {
    while (bytes < ANSWER_BYTES) {
      const { done, value } = await reader.read();
      if (done) break;
      read.push(value);
      bytes += value.byteLength;
    }
  } catch {
    // If the connection breaks while the body is read, the status of the response is still valid.
  } finally {
    clearTimeout(give);
    await reader.cancel().catch(() => undefined);
  }
  return new TextDecoder().decode(Buffer.concat(read).subarray(0, ANSWER_BYTES)).replaceAll("\0", "");
}
