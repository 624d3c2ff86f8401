import { errors } from "millrace";
import { resetMs } from "./refusal.ts";

/**
 * Returns the milliseconds that a response asks the caller to wait: `retry-after-ms`, which OpenAI's own clients prefer, then
 * `retry-after`, then the longest reset of a used-up limit (`x-ratelimit-remaining-tokens: 0`, `x-ratelimit-reset-tokens: 6m0s`). The
 * result is 0 if these times are over. The result is undefined for a response without any of these fields.
 */
export function askedPauseMs(headers: Headers): number | undefined {
  const exact = headers.get("retry-after-ms")?.trim() ?? "";
  const resets = ["requests", "tokens"]
    .filter((limit) => Number(headers.get(`x-ratelimit-remaining-${limit}`) ?? Number.NaN) === 0)
    .flatMap((limit) => goDurationMs(headers.get(`x-ratelimit-reset-${limit}`)) ?? []);
  const asked = [
    /^\d+(\.\d+)?$/.test(exact) ? Math.ceil(Number(exact)) : undefined,
    errors.retryAfterMs(headers.get("retry-after")),
    resetMs(headers),
    resets.length > 0 ? Math.max(...resets) : undefined,
  ].filter((ms) => ms !== undefined);
  return asked.find((ms) => ms > 0) ?? asked[0];
}

const UNITS_MS: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 };

/** Parses a duration as Go writes it: `1h2m3.5s`, `20ms`. */
function goDurationMs(text: string | null): number | undefined {
  if (text === null || !/^(\d+(\.\d+)?(h|ms|m|s))+$/.test(text)) return undefined;
  const parts = text.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|s)/g);
  return Math.ceil(parts.reduce((total, [, amount, unit = ""]) => total + Number(amount) * (UNITS_MS[unit] ?? 0), 0));
}
