import { sayUnmeant } from "./settings.ts";

/** Where on earth something may be made: the platform's own names. */
const LOCATIONS = ["wnam", "enam", "sam", "weur", "eeur", "apac", "apac-ne", "apac-se", "oc", "afr", "me"] as const;

interface Placed {
  locationHint?: (typeof LOCATIONS)[number];
}

/**
 * Where objects and instances are made when they are first asked for: `LOCATION_HINT` in the env, such as `weur`, should name the place
 * of the database. Default: near whoever asks first, for good. A setting that is no place must not stop open instances: it is logged and
 * counts as not set.
 */
export function placed(env: object): Placed {
  const { LOCATION_HINT: hint } = env as { LOCATION_HINT?: string };
  if (!hint) return {};
  const locationHint = LOCATIONS.find((place) => place === hint);
  if (locationHint) return { locationHint };
  sayUnmeant(env, `LOCATION_HINT is "${hint}": say one of ${LOCATIONS.join(", ")}.`);
  return {};
}
