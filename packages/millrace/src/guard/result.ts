import { MillraceError } from "../contract/errors.ts";
import { byteLength } from "../contract/limits.ts";
import { halvedIn, type Strange, strangeIn, withoutHalves } from "../contract/plain.ts";
import { beginning } from "../contract/text.ts";
import { serialize } from "./output.ts";

/** Largest result of a run, which the platform keeps. See https://developers.cloudflare.com/workflows/reference/limits/ */
const MAX_RESULT_BYTES = 1024 * 1024;

/** Levels of nesting that the platform can certainly keep. */
const MAX_RESULT_DEPTH = 500;

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
  const text = typeof value === "function" || typeof value === "symbol" ? undefined : asJson(value);
  const halved = text === undefined ? undefined : halvedIn(text);
  const { what, at } = strangeOf(value) ?? halved ?? {};
  const changed = what ? `Its result has ${what}${at ? ` at "${beginning(at, 200)}"` : ""}, which JSON changes or leaves out.` : null;
  const json: unknown = text === undefined ? undefined : JSON.parse(halved ? withoutHalves(text) : text);
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

function asJson(value: unknown): string {
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
  return text;
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
