import { MillraceError } from "../contract/errors.ts";
import { restored, saysRedacted } from "../contract/redact.ts";
import type { DeadLetterRow } from "../inspect/dead-letters.ts";
import { redactionOf } from "../inspect/redaction.ts";
import type { Catalog } from "../topology/catalog.ts";

/** A payload that somebody sends back of one that is stored, and shown to them by the definition of its type. Errors: `invalid_payload`. */
export function payloadAsStored(catalog: Catalog, type: string, edited: unknown, stored: unknown): unknown {
  return asStored(edited, redactionOf(catalog).payload({ message_type: type }, stored), stored);
}

/**
 * What somebody sends back of something that was partly withheld from them: where it still says `[redacted]`, what is stored stays. Errors:
 * `invalid_payload` for the marker where nothing was withheld: nobody means it.
 */
function asStored(edited: unknown, shown: unknown, stored: unknown): unknown {
  const whole = restored(edited, shown, stored);
  if (shown === stored || !saysRedacted(whole)) return whole;
  const message = "contains [redacted] where no value is stored: write the value, or leave it out";
  throw new MillraceError("invalid_payload", `The body ${message}.`, { issues: [{ path: "body", message }] });
}

/** A correction of a dead letter with what was withheld of it put back; undefined where there is none. Errors: as `asStored`. */
export function correctionOf(catalog: Catalog, { queue, body }: Pick<DeadLetterRow, "queue" | "body">, edited: unknown): unknown {
  return edited === undefined ? undefined : asStored(edited, redactionOf(catalog).letter(queue, body).body, body);
}
