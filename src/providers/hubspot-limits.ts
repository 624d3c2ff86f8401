import type { Window } from "millrace";

/**
 * From HubSpot's page "API usage guidelines": the limits of a private app of a free or starter account in any 10 seconds, and of an account
 * in a day.
 */
const BURST = 100;
const DAILY = 250_000;
export const BURST_MS = 10_000;
const DAY_MS = 86_400_000;

interface LimitVars {
  CRM_BURST?: string;
  CRM_DAILY?: string;
}

/** The two configured limits; an invalid setting is replaced by the default. */
export function hubspotLimits(env: LimitVars): { burst: number; daily: number } {
  return { burst: positive(env.CRM_BURST) ?? BURST, daily: positive(env.CRM_DAILY) ?? DAILY };
}

/** The two limits as sliding windows. HubSpot's day begins at midnight of the account; any 24 hours are at least as strict. */
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
