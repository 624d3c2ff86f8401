import { type Envelope, MAX_PATH } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";

/** Default of the catalog's `maxHops`. */
const MAX_HOPS = 3;

/** Validates a catalog's `maxHops`. Errors: `config_invalid`. */
export function checkedHops(maxHops = MAX_HOPS): number {
  if (Number.isInteger(maxHops) && maxHops >= 1 && maxHops < MAX_PATH) return maxHops;
  throw new MillraceError("config_invalid", `The catalog has maxHops: ${maxHops}. Say 1 to ${MAX_PATH - 1} runs that may follow a first.`);
}

/**
 * Refuses to start an instance at the end of a chain that is longer than the catalog allows, or circular. Errors: `too_many_hops`, with
 * the workflows of the chain.
 */
export function assertFewHops({ maxHops }: { maxHops: number }, workflow: string, { message_type, path = [] }: Envelope): void {
  if (path.length <= maxHops) return;
  const way = [...path, workflow];
  const isCircle = new Set(way).size < way.length;
  throw new MillraceError(
    "too_many_hops",
    `"${message_type}" has ${path.length} runs behind it, and maxHops is ${maxHops}: ${way.join(" → ")}. ` +
      (isCircle
        ? "It goes in a circle: let it end by itself, or say in the catalog how far it may go; then replay this."
        : "Make the chain shorter, or say maxHops in the catalog; then replay this."),
  );
}
