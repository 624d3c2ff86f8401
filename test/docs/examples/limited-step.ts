import { defineStep, type EffectCall, retryAfter, upstreamRefused } from "millrace";
import { limitOf } from "millrace/limits";

/** Sends a letter within the limit. A 429 delays all callers, and this one retries at the time that the upstream returned. */
export const sendLetter = defineStep({
  effect: "keyed",
  retries: { limit: 10, delay: "5 seconds", backoff: "exponential" },
  async run({ input, key, env, fetch }: EffectCall<{ to: string }>): Promise<{ status: number }> {
    const limit = limitOf(env, "mailer", [{ limit: 20, periodMs: 1_000 }], { marginMs: 200 });
    await limit.take();
    const headers = { "Idempotency-Key": key };
    const answer = await fetch("https://mailer.example.com/letters", { method: "POST", headers, body: JSON.stringify(input) });
    const waitMs = await limit.heed(answer);
    if (waitMs > 0) throw retryAfter(waitMs, `The mailer answered ${answer.status}.`, answer.status);
    if (answer.status < 500 && !answer.ok) throw upstreamRefused(`The mailer answered ${answer.status}.`, answer.status);
    if (!answer.ok) throw new Error(`The mailer answered ${answer.status}. Whether it sent is unknown.`);
    return { status: answer.status };
  },
});
