import { type ErrorCode, MillraceError } from "../contract/errors.ts";
import { type EntryKey, formatEntryKey } from "../contract/ids.ts";
import type { Entry } from "../store/inbox/entry.ts";
import type { PackedOutput } from "./output.ts";

/**
 * The result of an attempt: an output; an unknown outcome, named by its entry's key; or not started, because an operator holds the run.
 * `appRows`: the number of rows that the app's own statements wrote, as D1 counts rows for billing. `reads`: true for a read's output.
 */
export type StepOutcome =
  | (PackedOutput & { readonly appRows?: number; readonly reads?: true })
  | { readonly inDoubt: string }
  | { readonly held: true };

export function inDoubt(key: EntryKey): StepOutcome {
  return { inDoubt: formatEntryKey(key) };
}

/** Returns the recorded output of an effect. Throws the recorded error if the output could not be stored. */
export function resultOf(instanceId: string, entry: Entry): PackedOutput {
  if (entry.error !== null && entry.output === null && entry.output_ref === null) {
    const { code, message } = JSON.parse(entry.error) as { code: ErrorCode; message: string };
    if (code === "output_too_large" || code === "output_not_serializable") {
      const confirm = `POST /v1/effects/${formatEntryKey({ ...entry, instanceId })}/confirm`;
      const said = `The effect itself happened and is not repeated: confirm it with an output (${confirm}), then retry.`;
      throw new MillraceError(code, `${message} ${said}`);
    }
  }
  return { output: entry.output, outputRef: entry.output_ref };
}
