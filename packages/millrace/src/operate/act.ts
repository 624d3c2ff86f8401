import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint, type PointAround } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Action, applied, audit, type Operator } from "../store/actions.ts";
import { namedBatch, type Part } from "../store/d1/named.ts";
import type { Row } from "../store/d1/retry.ts";
import { applyAction } from "./carry-out/carry-out.ts";

interface Writes<Name extends string> {
  /** The statement of the action, or a list that ends with it. The action's result is whether this statement changes a row. */
  change: Part;
  also?: Readonly<Record<Name, Part>> | undefined;
  /** True leaves the action open until the platform is notified. Default false. */
  tellsPlatform?: boolean;
}

/**
 * Commits an operator's action in one batch: the change, its audit row directly after it, and the statements that depend on both.
 * `isApplied` is false when no row changed; that is audited too. `answers` has the rows of the statements under `also`.
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
  /** A sentence for the operator. Null where only a concurrent action can be the cause. */
  why: string | null;
  from: string;
  to: string;
}

export interface Performed<Name extends string> extends Omit<Writes<Name>, "tellsPlatform"> {
  refused(answers: Record<Name, Row[]>): Refusal | Promise<Refusal>;
  /** Between the commit and the call of the platform. After a crash here, the keeper carries the action out. None: no call. */
  window?: PointAround | undefined;
  /** True if an earlier action has made this change: the action is no refusal. Default: no action is a repeat. */
  isRepeat?: (() => Promise<boolean>) | undefined;
}

/**
 * As `act`, for an action that is refused if it changes no row. With a `window`, it is committed as open, then carried out on the platform.
 * Errors: `invalid_transition`.
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
      why ?? "Another action changed it at the same time, so nothing was done. Load it again, then decide.",
      { from, to, audited: true },
    );
  }
  if (window === undefined) return done;
  await crashPoint(window);
  await applyAction(env, action.id);
  return done;
}
