import { getJson, putJson } from "../contract/bucket.ts";
import { MillraceError } from "../contract/errors.ts";
import { byteLength } from "../contract/limits.ts";
import { beginning } from "../contract/text.ts";
import { type Strange, strangeIn } from "./plain.ts";

/**
 * Outputs above this many bytes are kept in R2 and referred to. The platform takes at most 1 MiB as a step's result, D1 2 MB as a value.
 */
const INLINE_OUTPUT_BYTES = 128 * 1024;

/** Largest output that is kept at all: it is parsed at every pass, in memory that a whole isolate shares (128 MB). */
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;

/** Largest result of a run, which the platform keeps. See https://developers.cloudflare.com/workflows/reference/limits/ */
const MAX_RESULT_BYTES = 1024 * 1024;

/** Levels of nesting that the platform can certainly keep. */
const MAX_RESULT_DEPTH = 500;

/** An output as it is stored: JSON, or a reference to JSON. Both null for `undefined`. */
export interface PackedOutput {
  readonly output: string | null;
  readonly outputRef: string | null;
}

/**
 * Makes an output storable. Errors: `output_not_serializable`, also for what JSON would change in silence, because the code would be given
 * something else on a later pass than its type says; `output_too_large`, `unavailable` when R2 goes on failing.
 */
export async function packOutput(bucket: R2Bucket, path: string, value: unknown): Promise<PackedOutput> {
  if (value === undefined) return { output: null, outputRef: null };
  const text = serialize(value, "step's output");
  assertPlain(value);
  if (byteLength(text) <= INLINE_OUTPUT_BYTES) return { output: text, outputRef: null };
  if (byteLength(text) > MAX_OUTPUT_BYTES) {
    throw new MillraceError(
      "output_too_large",
      `The step's output has ${byteLength(text)} bytes, and at most ${MAX_OUTPUT_BYTES} (4 MiB) are kept: store it in the step and return where it is.`,
    );
  }
  const outputRef = `outputs/${path}`;
  await putJson(bucket, outputRef, text);
  return { output: null, outputRef };
}

/** What a run returned, as the platform keeps it. */
interface Result {
  readonly kept: unknown;
  /** A sentence about what JSON changed of it; null where it is as it was. */
  readonly changed: string | null;
}

/** Beside a result that JSON changed, in what the platform keeps: nothing is written for it. */
const CHANGED = "millrace:changed";

/**
 * What a workflow's code answered, as the platform can keep it: what it cannot would end a run as failed whose row says that it is
 * complete. Everything that the run does has happened, so that a result which JSON only changes ends no run: it is kept as JSON has it, and
 * says so. Errors: `output_not_serializable`, `output_too_large`.
 */
export function asResult(value: unknown): Result {
  if (value === undefined) return { kept: undefined, changed: null };
  const { what, at } = strangeOf(value) ?? {};
  const changed = what ? `Its result has ${what}${at ? ` at "${beginning(at, 200)}"` : ""}, which JSON changes or leaves out.` : null;
  const json = typeof value === "function" || typeof value === "symbol" ? undefined : asJson(value);
  return { kept: changed === null ? json : { [CHANGED]: changed, result: json ?? null }, changed };
}

/** What the platform kept of a run's result. */
export function readResult(kept: unknown): { result: unknown; changed: string | null } {
  if (typeof kept !== "object" || kept === null || !(CHANGED in kept)) return { result: kept ?? null, changed: null };
  return { result: "result" in kept ? kept.result : null, changed: String(kept[CHANGED]) };
}

/** What cannot be read a second time says nothing. */
function strangeOf(value: unknown): Strange | undefined {
  try {
    return strangeIn(value);
  } catch {
    return undefined;
  }
}

function asJson(value: unknown): unknown {
  const text = serialize(value, "workflow's result");
  if (byteLength(text) > MAX_RESULT_BYTES) {
    throw new MillraceError(
      "output_too_large",
      `The workflow's result has ${byteLength(text)} bytes, and at most ${MAX_RESULT_BYTES} (1 MiB) are kept: store it in a step and return where it is.`,
    );
  }
  if (isDeeperThan(MAX_RESULT_DEPTH, text)) {
    throw new MillraceError(
      "output_not_serializable",
      `The workflow's result is nested more than ${MAX_RESULT_DEPTH} levels deep: return plain data.`,
    );
  }
  return JSON.parse(text);
}

/** The value again. Errors: `payload_missing` when a referred output is gone, `unavailable` when R2 goes on failing. */
export async function unpackOutput(bucket: R2Bucket, packed: PackedOutput): Promise<unknown> {
  if (packed.output !== null) return JSON.parse(packed.output);
  if (packed.outputRef === null) return undefined;
  const output = await getJson(bucket, packed.outputRef);
  if (output === undefined)
    throw new MillraceError("payload_missing", `The step's output at ${packed.outputRef} is gone from R2: restore it, then retry.`);
  return output;
}

function assertPlain(value: unknown): void {
  let strange: Strange | undefined;
  try {
    strange = strangeIn(value);
  } catch (cause) {
    const said = "The step's output is nested too deep, or throws when it is read: return plain data.";
    throw new MillraceError("output_not_serializable", said, { cause });
  }
  if (!strange) return;
  const where = strange.at ? ` at "${beginning(strange.at, 200)}"` : "";
  throw new MillraceError(
    "output_not_serializable",
    `The step's output has ${strange.what}${where}, which JSON would change: return plain data, such as { at: date.toISOString() } or [...map].`,
  );
}

function isDeeperThan(most: number, json: string): boolean {
  let depth = 0;
  // Texts are left out: their brackets open nothing.
  for (const bracket of json.replace(/"(?:[^"\\]|\\.)*"/g, "").matchAll(/[[{\]}]/g)) {
    depth += bracket[0] === "[" || bracket[0] === "{" ? 1 : -1;
    if (depth > most) return true;
  }
  return false;
}

function serialize(value: unknown, what: string): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw new MillraceError("output_not_serializable", `The ${what} is not JSON (a cycle or a BigInt): return plain data.`, {
      cause,
    });
  }
  if (text === undefined) throw new MillraceError("output_not_serializable", `The ${what} is a function or a symbol: return plain data.`);
  return text;
}
