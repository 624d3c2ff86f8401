import * as z from "zod";
import type { EngineEnv } from "../../contract/bindings.ts";
import { workflowBinding } from "../../contract/bindings.ts";
import { type Duration, durationMs } from "../../contract/duration.ts";
import { MillraceError } from "../../contract/errors.ts";
import { query } from "../../store/d1/retry.ts";
import { selectKnown } from "../../store/instances/keys.ts";
import type { Catalog } from "../../topology/catalog.ts";

/** Options of a request for the end of its instance: a deadline and a callback. */
export interface AskedEnd {
  /** The deadline: an ISO time with its offset, or a duration from now, such as `"2 hours"`. */
  readonly mustEndBy?: string | undefined;
  /**
   * The address that the engine calls at each end of the instance. The address is refused when the deployment has no callbacks or does not
   * allow the address.
   */
  readonly callbackUrl?: string | undefined;
  /** Names of the fields for deadline and callback in error messages. Default: the names of the API. */
  readonly called?: Readonly<Record<"mustEndBy" | "callbackUrl", string>>;
}

/** This schema also validates the calendar day: `Date.parse` alone reads 30 February as 2 March. */
const time = z.iso.datetime({ offset: true });
const CALLED = { mustEndBy: "must_end_by", callbackUrl: "callback_url" } as const;

const DAY_MS = 86_400_000;
/** Maximum number of days until a deadline. A later deadline is probably a mistake. */
const MOST_DAYS = 365;
/** Tolerance for a deadline in the past, because the caller's clock may be slow. */
const CLOCKS_DIFFER_MS = 60_000;

/**
 * Validates deadline and callback URL for the envelope. Errors: `invalid_payload` for an invalid time and for an address that may not be
 * called; `config_invalid` when the catalog declares callbacks, but the workflow of the callbacks has no binding.
 */
export async function asEnvelopeSays(env: EngineEnv, { callbacks }: Pick<Catalog, "callbacks">, asked: AskedEnd): Promise<AskedEnd> {
  const { callbackUrl, mustEndBy, called = CALLED } = asked;
  if (callbackUrl !== undefined) {
    if (callbacks === undefined) throw refused(called.callbackUrl, "is not supported: this deployment has no callbacks; remove it");
    workflowBinding(env, callbacks.name);
    const judged = await callbacks.guard?.(env as unknown as Cloudflare.Env, callbackUrl);
    if (judged?.verdict === "refused") throw refused(called.callbackUrl, judged.reason);
  }
  return { callbackUrl, ...(mustEndBy !== undefined && { mustEndBy: new Date(timeOf(mustEndBy, called.mustEndBy)).toISOString() }) };
}

/**
 * Refuses a deadline more than a minute in the past, or before a delayed command is due. A repeat of an accepted command is not refused,
 * because the caller gets the existing instance. The database is queried only if a deadline would otherwise be refused. Errors:
 * `invalid_payload`.
 */
export async function assertToCome(
  env: EngineEnv,
  { id, delaySeconds }: { id: string; delaySeconds: number },
  says: AskedEnd,
  { called = CALLED }: AskedEnd,
): Promise<void> {
  const { mustEndBy } = says;
  const dueAt = Date.now() + delaySeconds * 1000;
  if (mustEndBy === undefined || Date.parse(mustEndBy) > (delaySeconds > 0 ? dueAt : dueAt - CLOCKS_DIFFER_MS)) return;
  if ((await query(env.DB, selectKnown([id]))).length > 0) return;
  if (delaySeconds > 0) {
    throw refused(
      called.mustEndBy,
      `is before the due time of the command, ${new Date(dueAt).toISOString()}: use a later time, or a shorter delay`,
    );
  }
  throw refused(called.mustEndBy, "is in the past: use a future time, or remove it to run the command without a deadline");
}

/** Refuses a deadline or a callback URL for an event, which has no end. Errors: `invalid_payload`. */
export function assertNoEnd({ mustEndBy, callbackUrl, called = CALLED }: AskedEnd): void {
  const said = mustEndBy !== undefined ? called.mustEndBy : callbackUrl !== undefined ? called.callbackUrl : undefined;
  if (said !== undefined) throw refused(said, "is only for commands: an event has no single end; remove it");
}

function timeOf(said: string, path: string): number {
  if (time.safeParse(said).success) return Date.parse(said);
  const ms = lengthOf(said);
  if (ms > 0 && ms <= MOST_DAYS * DAY_MS) return Date.now() + ms;
  throw refused(
    path,
    `must be a time with its offset, such as 2026-10-01T09:30:00Z, or a duration of at most ${MOST_DAYS} days, such as "2 hours"`,
  );
}

function lengthOf(said: string): number {
  try {
    return /^\d/.test(said) ? durationMs(said as Duration) : Number.NaN;
  } catch {
    return Number.NaN;
  }
}

function refused(path: string, message: string): MillraceError {
  return new MillraceError("invalid_payload", `The field ${path} ${message}.`, { issues: [{ path, message }] });
}
