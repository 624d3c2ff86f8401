import { sayUnmeant } from "./settings.ts";

/** The platform's location hints. */
const LOCATIONS = ["wnam", "enam", "sam", "weur", "eeur", "apac", "apac-ne", "apac-se", "oc", "afr", "me"] as const;

interface Placed {
  locationHint?: (typeof LOCATIONS)[number];
}

/**
 * The location of new objects and instances: `LOCATION_HINT` in the env, such as `weur`, should be the location of the database. By
 * default, an object is near its first caller, permanently. An invalid value is logged and ignored, so that instances in progress continue.
 */
export function placed(env: object): Placed {
  const { LOCATION_HINT: hint } = env as { LOCATION_HINT?: string };
  if (!hint) return {};
  const locationHint = LOCATIONS.find((place) => place === hint);
  if (locationHint) return { locationHint };
  sayUnmeant(env, `LOCATION_HINT is "${hint}": use one of ${LOCATIONS.join(", ")}.`);
  return {};
}
