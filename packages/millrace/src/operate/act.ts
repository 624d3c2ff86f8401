import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint, type PointAround } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Action, applied, audit, type Operator } from "../store/actions.ts";
import { namedBatch, type Part } from "../store/d1/named.ts";
import type { Row } from "../store/d1/retry.ts";
import { applyAction } from "./carry-out/carry-out.ts";

interface Writes<Name extends string> {
  /**
   * The statement of the action, or a list of statements that ends with this statement. The audit records whether the statement changed a
   * row.
   */
  change: Part;
  also?: Readonly<Record<Name, Part>> | undefined;
  /** If true, the action remains open until the platform is notified. Default: false. */
  tellsPlatform?: boolean;
}

/**
 * Commits an operator's action in one batch: the change, the audit row directly after the change, and the statements that depend on both.
 * `isApplied` is false if no row changed. The audit records this result too. `answers` contains the rows that the statements in `also`
 * return.
 */
export async function act<Name extends string = never>(
  env: EngineEnv,
  by: Operator,
  action: Action,
  { change, also, tellsPlatform = false }: Writes<Name>,
): Promise<{ isApplied: boolean; answers: Record<Name, Row[]> }> {
  const answers = await namedBatch<Name | "change" | "audited" | "result">(env.DB, {
    change,
    audited: audit(by, action, tellsPlatform),
    ...(also as Record<Name, Part>),
    result: applied(action.id),
  });
  return { isApplied: answers.result[0]?.result === "applied", answers };
}

export interface Refusal {
  /** The reason for the refusal, for the operator; null if only a concurrent action can be the reason. */
  why: string | null;
  from: string;
  to: string;
}

export interface Performed<Name extends string> extends Omit<Writes<Name>, "tellsPlatform"> {
  refused(answers: Record<Name, Row[]>): Refusal | Promise<Refusal>;
  /**
   * The crash point between the commit and the call of the platform. After a crash at this point, the keeper carries the action out. If
   * undefined, the platform is not called.
   */
  window?: PointAround | undefined;
  /**
   * Returns true if an earlier action has made the same change. Then the action is a repeat and is not refused. Default: no action is a
   * repeat.
   */
  isRepeat?: (() => Promise<boolean>) | undefined;
}

/**
 * Like `act`, but an action that changes no row is refused. With a `window`, the action is committed as open, and after the commit carried
 * out on the platform. Errors: `invalid_transition`.
 */
export async function perform<Name extends string = never>(
  env: EngineEnv,
  by: Operator,
  action: Action,
  { refused, window, isRepeat, ...writes }: Performed<Name>,
): Promise<{ isApplied: boolean; answers: Record<Name, Row[]> }> {
  const done = await act<Name>(env, by, action, { ...writes, tellsPlatform: window !== undefined });
  if (!done.isApplied && !(await isRepeat?.())) {
    const { why, from, to } = await refused(done.answers);
    throw new MillraceError(
      "invalid_transition",
      why ?? "Another action changed the item at the same time, so nothing was done. Load the item again, then decide.",
      { from, to, audited: true },
    );
  }
  if (window === undefined) return done;
  await crashPoint(window);
  await applyAction(env, action.id);
  return done;
}
