import { logLine } from "./log-line.ts";

/** Where on earth something may be made: the platform's own names. */
const LOCATIONS = ["wnam", "enam", "sam", "weur", "eeur", "apac", "apac-ne", "apac-se", "oc", "afr", "me"] as const;

interface Placed {
  locationHint?: (typeof LOCATIONS)[number];
}

/** Environments that were told that their setting is no place. */
const told = new WeakSet<object>();

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
  if (!told.has(env)) logLine("error", { log: "config_invalid", error: `LOCATION_HINT is "${hint}": say one of ${LOCATIONS.join(", ")}.` });
  told.add(env);
  return {};
}
