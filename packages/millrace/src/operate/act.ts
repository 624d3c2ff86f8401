import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint, type PointAround } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Action, applied, audit, type Operator } from "../store/actions.ts";
import { namedBatch, type Part } from "../store/d1/named.ts";
import type { Row } from "../store/d1/retry.ts";
import { applyAction } from "./carry-out/apply.ts";

/** What an action writes, in one batch. */
interface Writes<Name extends string> {
  /** The statement that the action is about, or a list that ends with it: whether that one changes a row is the action's result. */
  change: Part;
  /** Statements behind the audit row, by name. */
  also?: Readonly<Record<Name, Part>>;
  /** True leaves the action open until the platform has heard of it. Default false. */
  tellsPlatform?: boolean;
}

/**
 * Commits an operator's action in one batch: its change, the audit row right behind it, and what follows from both. `isApplied` is false
 * where nothing changed, which is audited too; `answers` has the rows of what stands under `also`.
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

/** Why an action changed nothing. */
export interface Refusal {
  /** A sentence for the operator; null where only somebody else's action can have come in between. */
  why: string | null;
  from: string;
  to: string;
}

interface Told<Name extends string> extends Omit<Writes<Name>, "tellsPlatform"> {
  refused(answers: Record<Name, Row[]>): Refusal | Promise<Refusal>;
  /** Between the commit and the platform: a process that dies here leaves the rest to the keeper. */
  window: PointAround;
}

/** The same for an action that the platform must hear of: committed as a promise, then carried out. Errors: `invalid_transition`. */
export async function actAndTell<Name extends string = never>(
  env: EngineEnv,
  by: Operator,
  action: Action,
  { refused, window, ...writes }: Told<Name>,
): Promise<void> {
  const { isApplied, answers } = await act<Name>(env, by, action, { ...writes, tellsPlatform: true });
  if (!isApplied) {
    const { why, from, to } = await refused(answers);
    throw new MillraceError(
      "invalid_transition",
      why ?? "Another action changed it at the same time, so nothing was done. Load it again, then decide.",
      { from, to, audited: true },
    );
  }
  await crashPoint(window);
  await applyAction(env, action.id);
}
