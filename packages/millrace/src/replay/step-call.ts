import { assertDeclared } from "../contract/declared.ts";
import { MillraceError } from "../contract/errors.ts";
import { UNDO_PREFIX } from "../contract/step-names.ts";
import { beginning } from "../contract/text.ts";
import type { Start } from "./step-order.ts";

export interface StepCall {
  name: string;
  /** Distinguishes the calls of a step that the code calls more than once; "" for a step that the code calls once. */
  item: string;
  /** The name of the step on the platform. */
  label: string;
  /** For a platform step of the engine, the label of the code's step to which the platform step belongs. Failures have this label. */
  of?: string;
  reads?: boolean;
  /** True for a step with an inbox entry. */
  guarded?: boolean;
  /** True for an effect of which only the outcome is recorded, so that a failed attempt has no record. */
  acts?: boolean;
  /** True for a call of `step.commit`. */
  commits?: boolean;
  /** True if the first attempt is inline, unless an earlier replay may have made an attempt. */
  inline?: boolean;
  /** The position in the replay at which the code called the step; undefined for undo steps, which the engine creates. */
  start?: Start;
  /** The position of the effect in the order of undoing. Default: after the recorded effects. */
  position?: number;
  undoable?: boolean;
  /** The first generation of the step's effect that the step considers. Default: 1. */
  since?: number;
}

/**
 * Maximum length of a step's label. The platform's limit is 256 characters, and the engine adds suffixes and prefixes (" · after doubt 12",
 * "undo ") to the label.
 */
const MAX_LABEL_CHARACTERS = 216;

/** Refuses a step name that is invalid, or that the platform would refuse or change. Errors: `config_invalid`. */
export function assertNameable(name: string, label: string): void {
  assertDeclared(
    typeof name === "string" && name !== "",
    `A step's name must be a string, as in step.read("price", …), but this one is ${name === "" ? "empty" : `of the type ${typeof name}`}.`,
  );
  const refuse = (why: string) =>
    new MillraceError("config_invalid", `The step name "${beginning(label, 60)}" ${why}.`, {
      step: beginning(label, MAX_LABEL_CHARACTERS),
    });
  if (label.length > MAX_LABEL_CHARACTERS)
    throw refuse(
      `has ${label.length} characters with its key; at most ${MAX_LABEL_CHARACTERS} are allowed. Shorten it, or use a digest as the key`,
    );
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the platform refuses control characters
  if (/[\u0000-\u001f\u007f]/.test(label)) throw refuse("has a control character in the name or the key: use a digest as the key");
  // The platform and the database would change a malformed string, so that two different keys could become equal.
  if (!label.isWellFormed()) {
    throw refuse(
      "has half of a character (an unpaired surrogate) in the name or the key: cut texts between characters, or use a digest as the key",
    );
  }
  if (name.startsWith(UNDO_PREFIX)) throw refuse(`begins with "${UNDO_PREFIX}", which is reserved for undo steps: rename it`);
}
