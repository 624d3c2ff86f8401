import { type ErrorCode, MillraceError, messageOf } from "../contract/errors.ts";
import { type EntryKey, formatEntryKey } from "../contract/ids.ts";
import { byteLength } from "../contract/limits.ts";
import { getJson, putJson } from "../contract/payload.ts";
import { halvedIn, type Strange, strangeIn } from "../contract/plain.ts";
import { beginning, shortened } from "../contract/text.ts";
import type { Entry } from "../store/inbox/entry.ts";

/** A larger output is stored in R2 and referenced. The platform allows 1 MiB per step result, and 2 MB per D1 value. */
const INLINE_OUTPUT_BYTES = 128 * 1024;

/** Maximum size of an output. The size is limited because every replay parses the output in the 128 MB of memory that an isolate shares. */
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;

/** A stored output: JSON, or a reference to JSON in R2. Both fields are null for the output `undefined`. */
export interface PackedOutput {
  readonly output: string | null;
  readonly outputRef: string | null;
}

/**
 * Serializes an output. A large output is stored in R2 under the given path. Errors: `output_not_serializable`, also for values that JSON
 * would change silently, because a later replay would otherwise get a value that does not match its type. `output_too_large`. `unavailable`
 * if R2 fails after all retries.
 */
export async function packOutput(
  bucket: R2Bucket,
  path: () => string,
  value: unknown,
  inlineBytes = INLINE_OUTPUT_BYTES,
): Promise<PackedOutput> {
  if (value === undefined) return { output: null, outputRef: null };
  const text = serialize(value, "step's output");
  assertPlain(value, text);
  if (byteLength(text) <= inlineBytes) return { output: text, outputRef: null };
  if (byteLength(text) > MAX_OUTPUT_BYTES) {
    throw new MillraceError(
      "output_too_large",
      `The step's output has ${byteLength(text)} bytes, and at most ${MAX_OUTPUT_BYTES} (4 MiB) are kept: store it in the step and return where it is.`,
    );
  }
  const outputRef = `outputs/${path()}`;
  await putJson(bucket, outputRef, text);
  return { output: null, outputRef };
}

/** Reads a stored output. Errors: `payload_missing` if the referenced output is not in R2, `unavailable` if R2 keeps failing. */
export async function unpackOutput(bucket: R2Bucket, packed: PackedOutput): Promise<unknown> {
  if (packed.output !== null) return JSON.parse(packed.output);
  if (packed.outputRef === null) return undefined;
  const output = await getJson(bucket, packed.outputRef);
  if (output === undefined)
    throw new MillraceError("payload_missing", `The step's output at ${packed.outputRef} is gone from R2: restore it, then retry.`);
  return output;
}

function assertPlain(value: unknown, text: string): void {
  let strange: Strange | undefined;
  try {
    strange = strangeIn(value) ?? halvedIn(text);
  } catch (cause) {
    throw unreadable(cause, "step's output");
  }
  if (!strange) return;
  const where = strange.at ? ` at "${beginning(strange.at, 200)}"` : "";
  throw new MillraceError(
    "output_not_serializable",
    `The step's output has ${strange.what}${where}, which JSON would change: return plain data, such as a finite number, null, date.toISOString(), [...map] or text.toWellFormed().`,
  );
}

export function serialize(value: unknown, what: string): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw unreadable(cause, what);
  }
  if (text === undefined) throw new MillraceError("output_not_serializable", `The ${what} is a function or a symbol: return plain data.`);
  return text;
}

const NO_JSON = /^(Converting circular structure to JSON|Do not know how to serialize a BigInt)/;

function unreadable(cause: unknown, what: string): MillraceError {
  const said = messageOf(cause);
  const why =
    cause instanceof RangeError
      ? "is nested too deep"
      : cause instanceof TypeError && NO_JSON.test(said)
        ? "is not JSON (a cycle or a BigInt)"
        : `throws when it is read (${shortened(said, 200)})`;
  return new MillraceError("output_not_serializable", `The ${what} ${why}: return plain data.`);
}

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
export function resultOf(
  instanceId: string,
  entry: Pick<Entry, "step" | "item" | "generation" | "output" | "output_ref" | "error">,
): PackedOutput {
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
