import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint, type PointAround } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";
import { sql } from "../contract/sql.ts";
import { type Action, applied, audit, type Operator } from "../store/actions.ts";
import { namedBatch, type Part } from "../store/d1/named.ts";
import type { Row } from "../store/d1/retry.ts";
import { applyAction } from "./carry-out/carry-out.ts";

export interface Refusal {
  /** The reason for the refusal, for the operator; null if only a concurrent action can be the reason. */
  why: string | null;
  from: string;
  to: string;
}

interface Acting<Name extends string> {
  /** The statement of the action, or a list that ends with it. The audit records whether it changed a row. */
  change: Part;
  also?: Readonly<Record<Name, Part>> | undefined;
  /** True if the caller tries again when no row changed. Such an attempt is not audited. Default: it is audited as no change. */
  triesAgain?: boolean | undefined;
  refused?(answers: Record<Name, Row[]>): Refusal | Promise<Refusal>;
  /** Returns true if an earlier action has made the same change, so that the action is not refused. Default: false. */
  isRepeat?: (() => Promise<boolean>) | undefined;
  /** The crash point between the commit and the call of the platform, which the keeper repeats. Default: the platform is not called. */
  window?: PointAround | undefined;
}

/**
 * Commits an operator's action in one batch: the change, the audit row directly after the change, and the statements that depend on both.
 * `isApplied` is false if no row changed. The audit records this result too. `answers` contains the rows that the statements in `also`
 * return. Errors: `invalid_transition` for a refused action.
 */
export async function act<Name extends string = never>(
  env: EngineEnv,
  by: Operator,
  action: Action,
  { change, also, triesAgain, refused, isRepeat, window }: Acting<Name>,
): Promise<{ isApplied: boolean; answers: Record<Name, Row[]> }> {
  const answers = await namedBatch<Name | "change" | "audited" | "result">(env.DB, {
    change,
    audited: audit(by, action, window !== undefined, triesAgain ? sql`changes() > 0` : undefined),
    ...(also as Record<Name, Part>),
    result: applied(action.id),
  });
  const isApplied = answers.result[0]?.result === "applied";
  if (!isApplied && refused && !(await isRepeat?.())) {
    const { why, from, to } = await refused(answers);
    throw new MillraceError(
      "invalid_transition",
      why ?? "Another action changed the item at the same time, so nothing was done. Load the item again, then decide.",
      { from, to, audited: true },
    );
  }
  if (window === undefined) return { isApplied, answers };
  await crashPoint(window);
  await applyAction(env, action.id);
  return { isApplied, answers };
}

export function invalid(path: string, message: string): MillraceError {
  return new MillraceError("invalid_payload", `The ${path} ${message}.`, { issues: [{ path, message }] });
}
