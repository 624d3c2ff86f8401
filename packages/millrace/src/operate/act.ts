import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint, type PointAround } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Action, applied, audit, type Operator } from "../store/actions.ts";
import { namedBatch, type Part } from "../store/d1/named.ts";
import type { Row } from "../store/d1/retry.ts";
import { applyAction } from "./carry-out/carry-out.ts";

interface Writes<Name extends string> {
  /** The statement of the action, or a list that ends with it. The audit records whether this statement changed a row. */
  change: Part;
  also?: Readonly<Record<Name, Part>> | undefined;
  /** True: the action remains open until the platform is notified. Default: false. */
  tellsPlatform?: boolean;
}

/**
 * Commits an operator's action in one batch: the change, its audit row directly after it, and the statements that depend on both.
 * `isApplied` is false when no row changed, which the audit records too. `answers` has the rows of the statements under `also`.
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
  /** The reason for the refusal, for the operator; null where only a concurrent action can be the cause. */
  why: string | null;
  from: string;
  to: string;
}

export interface Performed<Name extends string> extends Omit<Writes<Name>, "tellsPlatform"> {
  refused(answers: Record<Name, Row[]>): Refusal | Promise<Refusal>;
  /**
   * The crash point between the commit and the call of the platform. After a crash at this point, the keeper carries the action out.
   * Undefined: the platform is not called.
   */
  window?: PointAround | undefined;
  /** Returns true if an earlier action has made this change, so that the action is no refusal. Default: no action is a repeat. */
  isRepeat?: (() => Promise<boolean>) | undefined;
}

/**
 * Like `act`, for an action that is refused if it changes no row. With a `window`, the action is committed as open, then carried out on the
 * platform. Errors: `invalid_transition`.
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
