import type { EngineEnv } from "../contract/bindings.ts";
import { workflowBinding } from "../contract/bindings.ts";
import { type Duration, durationMs } from "../contract/duration.ts";
import { MillraceError } from "../contract/errors.ts";
import type { Catalog } from "../topology/catalog.ts";

/** What somebody asks about the end of a command. */
export interface AskedEnd {
  /** By when it is to have ended: an ISO time with its offset, or how long it may take from now, such as `"2 hours"`. */
  readonly mustEndBy?: string | undefined;
  /** The address that hears of each end. Refused where the deployment calls none, and where it may not be called. */
  readonly callbackUrl?: string | undefined;
}

const DAY_MS = 86_400_000;
/** A deadline says that somebody waits. */
const MOST_DAYS = 365;

/**
 * What an envelope says of the end that a command is to have. Errors: `invalid_payload` for a time that is none, and for an address that is
 * not called here; `config_invalid` where callbacks are declared and not bound.
 */
export async function asEnvelopeSays(env: EngineEnv, { callbacks }: Pick<Catalog, "callbacks">, asked: AskedEnd): Promise<AskedEnd> {
  const { callbackUrl, mustEndBy } = asked;
  if (callbackUrl !== undefined) {
    if (callbacks === undefined) throw refused("callback_url", "is not called here: this deployment has no callbacks; leave it out");
    workflowBinding(env, callbacks.name);
    const judged = await callbacks.guard?.(env as unknown as Cloudflare.Env, callbackUrl);
    if (judged?.verdict === "refused") throw refused("callback_url", judged.reason);
  }
  return { callbackUrl, ...(mustEndBy !== undefined && { mustEndBy: new Date(timeOf(mustEndBy)).toISOString() }) };
}

/** A time that is over is taken: who repeats a request after its deadline is told of the instance that it began. */
function timeOf(said: string): number {
  const at = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/.test(said) ? Date.parse(said) : Number.NaN;
  if (Number.isFinite(at)) return at;
  const ms = lengthOf(said);
  if (ms > 0 && ms <= MOST_DAYS * DAY_MS) return Date.now() + ms;
  throw refused(
    "must_end_by",
    `must be a time with its offset, such as 2026-10-01T09:30:00Z, or a length of at most ${MOST_DAYS} days, such as "2 hours"`,
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
