import type { Window } from "millrace/limits";

/**
 * HubSpot's rate limits for a free or starter account, from HubSpot's page "API usage guidelines". The limits are the maximum number of
 * calls by a private app in any 10 seconds, and by all apps of an account in a day.
 */
const BURST = 100;
const DAILY = 250_000;
export const BURST_MS = 10_000;
const DAY_MS = 86_400_000;

interface LimitVars {
  CRM_BURST?: string;
  CRM_DAILY?: string;
}

/** Returns the two configured rate limits of HubSpot. The default replaces an invalid setting. */
export function hubspotLimits(env: LimitVars): { burst: number; daily: number } {
  return { burst: positive(env.CRM_BURST) ?? BURST, daily: positive(env.CRM_DAILY) ?? DAILY };
}

/**
 * Returns HubSpot's two rate limits as sliding windows. HubSpot's day begins at midnight in the account's time zone. A limit for any 24
 * hours is at least as strict.
 */
export function hubspotWindows(env: LimitVars): Window[] {
  const { burst, daily } = hubspotLimits(env);
  return [
    { limit: burst, periodMs: BURST_MS },
    { limit: daily, periodMs: DAY_MS },
  ];
}

function positive(value: string | undefined): number | undefined {
  const number = Number(value);
  return Number.isInteger(number) && number > 0 ? number : undefined;
}
