import type { Window } from "millrace";

/**
 * HubSpot's page "API usage guidelines": what a private app of a free or starter account may call in any 10 seconds, and an account in a
 * day.
 */
const BURST = 100;
const DAILY = 250_000;
export const BURST_MS = 10_000;
const DAY_MS = 86_400_000;

interface LimitVars {
  CRM_BURST?: string;
  CRM_DAILY?: string;
}

/** The two limits as they are configured; a setting that is no positive whole number is the default. */
export function hubspotLimits(env: LimitVars): { burst: number; daily: number } {
  return { burst: positive(env.CRM_BURST) ?? BURST, daily: positive(env.CRM_DAILY) ?? DAILY };
}

/**
 * The same as sliding windows. HubSpot's day begins at midnight of the account, and no day of any zone has more in it than any 24 hours.
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
