import { MillraceError } from "../contract/errors.ts";
import { restored, saysRedacted } from "../contract/redact.ts";
import type { FullDeadLetter } from "../inspect/dead-letters.ts";
import { redactionOf } from "../inspect/redaction.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { Typed } from "../topology/marks.ts";

/**
 * The payload of an operator's correction, in which each redacted field has the value from the stored payload. Errors: `invalid_payload`.
 */
export function payloadAsStored(catalog: Catalog, of: Typed, edited: unknown, stored: unknown): unknown {
  return asStored(edited, redactionOf(catalog).payload(of, stored), stored);
}

/**
 * Replaces `[redacted]` in an edited value by the stored value. Errors: `invalid_payload` for `[redacted]` in a field that was not
 * redacted.
 */
function asStored(edited: unknown, shown: unknown, stored: unknown): unknown {
  const whole = restored(edited, shown, stored);
  if (shown === stored || !saysRedacted(whole)) return whole;
  const message = "contains [redacted] where no value is stored: write the value, or remove the field";
  throw new MillraceError("invalid_payload", `The body ${message}.`, { issues: [{ path: "body", message }] });
}

/** A correction of a dead letter with its redacted fields restored; undefined without a correction. Errors: `invalid_payload`. */
export function correctionOf(catalog: Catalog, { queue, body }: Pick<FullDeadLetter, "queue" | "body">, edited: unknown): unknown {
  return edited === undefined ? undefined : asStored(edited, redactionOf(catalog).letter(queue, body).body, body);
}
