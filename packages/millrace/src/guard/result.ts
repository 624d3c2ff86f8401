import { MillraceError } from "../contract/errors.ts";
import { attemptToken, digest } from "../contract/ids.ts";
import { byteLength } from "../contract/limits.ts";
import { halvedIn, type Strange, strangeIn, withoutHalves } from "../contract/plain.ts";
import { beginning } from "../contract/text.ts";
import { packOutput, serialize } from "./output.ts";

/** The platform's limit of a result: https://developers.cloudflare.com/workflows/reference/limits/ */
const MAX_RESULT_BYTES = 1024 * 1024;

/** Maximum nesting of a result that the platform stores reliably. */
const MAX_RESULT_DEPTH = 500;

interface Result {
  readonly kept: unknown;
  /** Describes how JSON changed the result. Null if JSON changed nothing. */
  readonly changed: string | null;
}

const CHANGED = "millrace:changed";

/**
 * The result of a workflow in a form that the platform can store. The platform would fail a run with any other result, although the
 * run's row is `complete`. A result that JSON changes, but can represent, is stored with a note, because the run's effects have
 * happened. Errors: `output_not_serializable`, `output_too_large`.
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

export function readResult(kept: unknown): { result: unknown; changed: string | null } {
  if (typeof kept !== "object" || kept === null || !(CHANGED in kept)) return { result: kept ?? null, changed: null };
  return { result: "result" in kept ? kept.result : null, changed: String(kept[CHANGED]) };
}

/** Maximum size of a child's result that the event for the parent contains. The event refers to a larger result in R2. */
const SMALL_RESULT_BYTES = 16 * 1024;

/**
 * Packs the result of a child for its parent. A large result is stored in the folder of the parent's outputs, because retention keeps that
 * folder as long as the parent. Each replay has its own path, because an overtaken replay may have another result. Errors: `unavailable` if
 * R2 fails after all retries.
 */
export async function packChildResult(bucket: R2Bucket, child: ChildRun, kept: unknown): Promise<string> {
  const path = () => `${child.tenantId}/${child.parent}/${digest("child", child.id, String(child.run), attemptToken())}`;
  const value = kept === undefined ? undefined : readResult(kept).result;
  return JSON.stringify(await packOutput(bucket, path, value, SMALL_RESULT_BYTES));
}

interface ChildRun {
  readonly tenantId: string;
  readonly parent: string;
  readonly id: string;
  readonly run: number;
}

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
  // Brackets within strings do not count.
  for (const bracket of json.replace(/"(?:[^"\\]|\\.)*"/g, "").matchAll(/[[{\]}]/g)) {
    depth += bracket[0] === "[" || bracket[0] === "{" ? 1 : -1;
    if (depth > most) return true;
  }
  return false;
}
