import { MAX_RETRY_AFTER_MS, retryAfterMs } from "./refusal.ts";

/**
 * Milliseconds that an answer asks us to wait: `retry-after-ms`, which OpenAI's own clients prefer, then `retry-after`, then the
 * longest reset of a limit that is used up (`x-ratelimit-remaining-tokens: 0`, `x-ratelimit-reset-tokens: 6m0s`). Undefined when it asks
 * nothing.
 */
export function askedPauseMs(headers: Headers): number | undefined {
  const exact = headers.get("retry-after-ms");
  if (exact !== null && /^\s*\d+(\.\d+)?\s*$/.test(exact)) return Math.min(Math.ceil(Number(exact)), MAX_RETRY_AFTER_MS);
  const asked = retryAfterMs(headers.get("retry-after"));
  if (asked !== undefined) return asked;

  const resets = ["requests", "tokens"]
    .filter((limit) => Number(headers.get(`x-ratelimit-remaining-${limit}`) ?? Number.NaN) === 0)
    .flatMap((limit) => goDurationMs(headers.get(`x-ratelimit-reset-${limit}`)) ?? []);
  return resets.length > 0 ? Math.min(Math.max(...resets), MAX_RETRY_AFTER_MS) : undefined;
}

const UNITS_MS: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 };

/** A duration as Go writes it: `1h2m3.5s`, `20ms`. */
function goDurationMs(text: string | null): number | undefined {
  if (text === null || !/^(\d+(\.\d+)?(h|ms|m|s))+$/.test(text)) return undefined;
  const parts = text.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|s)/g);
  return Math.ceil(parts.reduce((total, [, amount, unit = ""]) => total + Number(amount) * (UNITS_MS[unit] ?? 0), 0));
}
