import { type Envelope, MAX_PATH } from "./envelope.ts";
import { MillraceError } from "./errors.ts";

/** The default of the option `maxHops` of the catalog. */
const MAX_HOPS = 3;

/** Validates the option `maxHops` of a catalog. Errors: `config_invalid`. */
export function checkedHops(maxHops = MAX_HOPS): number {
  if (Number.isInteger(maxHops) && maxHops >= 1 && maxHops < MAX_PATH) return maxHops;
  throw new MillraceError("config_invalid", `The catalog has maxHops: ${maxHops}. Use 1 to ${MAX_PATH - 1} instances after the first.`);
}

/**
 * Refuses to start an instance at the end of a chain that is longer than the catalog allows, or circular. Errors: `too_many_hops`, which
 * lists the workflows of the chain.
 */
export function assertFewHops(
  { maxHops }: { maxHops: number },
  workflow: string,
  { message_type, path = [] }: Pick<Envelope, "message_type" | "path">,
): void {
  if (path.length <= maxHops) return;
  const way = [...path, workflow];
  const isCircle = new Set(way).size < way.length;
  throw new MillraceError(
    "too_many_hops",
    `"${message_type}" is at the end of a chain of ${path.length} instances, and maxHops is ${maxHops}: ${way.join(" → ")}. ` +
      (isCircle
        ? "The chain is circular: end it in the code, or increase maxHops in the catalog; then replay this message."
        : "Make the chain shorter, or increase maxHops in the catalog; then replay this message."),
    { terminal: true },
  );
}
