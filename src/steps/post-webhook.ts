import {
  atomically,
  defineStep,
  type EffectCall,
  logLine,
  MillraceError,
  messageOf,
  notRetryable,
  retryAfter,
  retryAfterMs,
  upstreamRefused,
} from "millrace";
import { payloadOf } from "millrace/operate";
import { Webhook } from "standardwebhooks";
import { WebhookDeliver } from "../messages/webhooks.ts";
import { type Attempt, type Delivery, logAttempt, type Target, targetOf } from "../systems/webhooks/deliveries.ts";
import { type CheckedTarget, checkTarget } from "../systems/webhooks/guard.ts";
import { secretOf } from "../systems/webhooks/secret.ts";
import { timeoutMs } from "../systems/webhooks/settings.ts";

/** How a delivery came out without an error: taken, refused for good, or not sent because its endpoint is off or deleted. */
export type Posted = { state: "sent" | "gone"; attempt: Attempt } | { state: "skipped"; why: string } | { state: "off" };

/** Why a delivery is not made whose fact names a person who was forgotten while its endpoint was off. */
const NAMES_A_FORGOTTEN =
  "It named a person who was forgotten while the endpoint was off. Made again, it says a pseudonym in the person's place.";
/** Of an answer, as much is read and kept. */
const ANSWER_BYTES = 1024;
/** The longest wait that a receiver can ask for. */
const MAX_ASKED_MS = 3_600_000;
/** The status says what became of it; the words behind it are not waited for. */
const ANSWER_READ_MS = 2000;
/** A look at the endpoint holds for this long: after a longer one for its addresses, it is read again. */
const CURRENT_MS = 100;

/**
 * Posts a delivery's body to its endpoint, signed with every secret that is valid now. It is `keyed` by `webhook-id`, which is the
 * delivery's own id at every attempt, restart and retry: a receiver that remembers ids takes it once. A failed attempt is written to the
 * delivery's log here; the line of a good one goes with the step's own record.
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
      const failed = { ...line, error: messageOf(error), ms: Date.now() - began };
      // The delivery's own error is what counts: a log that cannot be written must not hide it.
      await atomically(env.DB, [logAttempt(delivery.tenant_id, delivery.id, failed)]).catch((unlogged) =>
        logLine("error", { log: "webhook_attempt_not_logged", delivery_id: delivery.id, error: messageOf(unlogged) }),
      );
      throw error;
    }
  },
});

/** What a request needs beside its endpoint: the verdict on its URL, and what it says. */
interface Ready {
  checked: CheckedTarget;
  body: string | undefined;
}

/**
 * Reads where a delivery goes, and makes it ready. A resolver may be slow: nothing leaves for a URL, or with a secret, that was changed in
 * the meantime and whose change was answered.
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

/** One request. Notes in the line what was answered; returns for 2xx and 410, and throws for everything else. */
async function post(
  { env, key, fetch, signal }: Pick<EffectCall<Delivery>, "env" | "key" | "fetch" | "signal">,
  delivery: Delivery,
  { checked, body, generations }: Target & Ready,
  line: Attempt,
): Promise<void> {
  if (body === undefined) throw notRetryable("Not sent: what it said is not kept any more.");
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
      late ? `The receiver gave no answer within ${timeoutMs(env) / 1000} s.` : "The receiver cannot be reached, or hung up.",
    );
  });
  line.status = response.status;
  line.answer = await beginningOf(response);
  if (response.ok || response.status === 410) return;
  const said = `The receiver answered ${response.status}`;
  if (response.status >= 300 && response.status < 400) {
    throw upstreamRefused(`${said}: redirects are not followed. Register the address it leads to.`, response.status);
  }
  const asked = retryAfterMs(response.headers.get("retry-after"));
  const delayMs = asked && Math.min(asked, MAX_ASKED_MS);
  if (delayMs !== undefined) throw retryAfter(delayMs, `${said} and asked for ${Math.ceil(delayMs / 1000)} seconds.`, response.status);
  throw upstreamRefused(`${said}.`, response.status);
}

/** What a delivery that is made again said the first time. */
async function bodyOf(env: Cloudflare.Env, { tenant_id, id }: Delivery): Promise<string | undefined> {
  return (await payloadOf(env, { tenantId: tenant_id }, WebhookDeliver, id))?.body;
}

/** The headers of Standard Webhooks: the time of this attempt, and a signature for each secret, the newest first. */
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

/** The first bytes of an answer as text, however long it is and however slowly it comes. */
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
    // An answer that breaks off has said its status: what came of it is enough.
  } finally {
    clearTimeout(give);
    await reader.cancel().catch(() => undefined);
  }
  return new TextDecoder().decode(Buffer.concat(read).subarray(0, ANSWER_BYTES)).replaceAll("\0", "");
}
