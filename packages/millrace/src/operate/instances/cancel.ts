import * as z from "zod";
import type { PlanVerdict } from "../../contract/plan-verdicts.ts";
import { labelOf } from "../../contract/step-names.ts";
import type { Unrecorded } from "../../replay/failure.ts";
import { auditDerivedCancels } from "../../store/actions.ts";
import { leaveDoubts, leaveDoubtsOfChildren } from "../../store/inbox/doubts.ts";
import { cancelChildren } from "../../store/instances/children.ts";
import { ENDED, UNDER_WAY } from "../../store/instances/status.ts";
import { beginCancel, markStopped } from "../../store/instances/stop.ts";
import { instanceAct } from "./act.ts";
import { pastOf } from "./left.ts";
import { planEffects } from "./plan.ts";
import { undoVerdictOn, VERDICT_ON } from "./undo.ts";

export const cancel = instanceAct({
  verb: "cancel",
  path: "cancel",
  summary: "Cancel a running instance",
  final: "A started cancel cannot be stopped.",
  description:
    "No further step starts, also if the instance waits, is paused or has not started. A running effect is recorded first. Then the effects with an undo handler are undone in reverse order, each once, and the instance is terminated. A dry run lists them in that order.",
  accepted: "The cancel was accepted",
  body: {
    undo: z.boolean().default(true).meta({ description: "True undoes the effects of the instance, false keeps them. Default true." }),
  },
  refused({ instance: { status, undo } }) {
    if (undo !== null && UNDER_WAY.has(status)) return "The instance is being undone already, so it cannot be cancelled.";
    if (UNDER_WAY.has(status)) return null;
    if (ENDED.has(status))
      return `The instance is ${status}: only an instance that has not ended can be cancelled. To undo its effects, undo it.`;
    return `The instance is ${status}: it never started, so there is nothing to cancel.`;
  },
  async plan({ env, by, instance, given: { undo = true } }) {
    const { caught, unrecorded } = await pastOf(env, instance);
    const failed = [...unrecorded].map(([label, known]) => [label, onFailed(known, undo)] as const);
    const effects = await planEffects(env, by, instance, {
      failed: new Map(failed),
      recorded: (effect): PlanVerdict => {
        if (effect.state === "claimed" && !caught.has(labelOf(effect.step, effect.item))) return "under_way";
        const verdict = undoVerdictOn(effect);
        return undo || (verdict !== "undone" && verdict !== "stays") ? verdict : "kept";
      },
      // The outcome of an effect without a recorded answer is unknown. A cancel does not wait for a read, so a read without an answer has
      // no verdict.
      unrecorded: (state, reads) => (reads ? undefined : UNRECORDED[state]),
    });
    return { consequence: undo ? TAKEN_BACK : STANDS, effects: effects.toReversed() };
  },
  change({ instance: { status, run: before }, given: { undo = true }, actionId, next }) {
    const { id, run } = next;
    return {
      change: undo ? beginCancel(next, actionId) : markStopped(next),
      also: {
        doubts: leaveDoubts(id, actionId),
        children: [auditDerivedCancels(id, actionId, undo), cancelChildren(next, actionId, undo), leaveDoubtsOfChildren(next, actionId)],
      },
      detail: { run, undo },
      before: { status, run: before },
      // An instance in doubt remains in doubt until an operator has resolved the outcome.
      after: { status: undo ? (status === "in_doubt" ? "in_doubt" : "running") : "terminated", run },
      to: "terminated",
      window: "cancel committed, not applied",
    };
  },
  bulk: {
    from: UNDER_WAY.values,
    needs: "undo",
    given: ({ undo = true }) => ({ undo }),
    runs: true,
    consequence: async ({ options: { undo = true } }) => (undo ? MANY_TAKEN_BACK : MANY_STAND),
  },
});

const UNRECORDED = { running: "under_way", retrying: "unknown", held: undefined } as const;

/** The verdict on an effect that failed without a record. The effect is executed again only if the cancel undoes effects. */
function onFailed(known: Unrecorded, undo: boolean): PlanVerdict {
  return known === "undoable" && !undo ? "unknown" : VERDICT_ON[known];
}

const TAKEN_BACK =
  "The instance starts no further step. Running attempts are recorded first. An effect with a lost answer is repeated under its key if it can be undone, so that its outcome is known. Then effects with an undo handler are undone in reverse order, and the instance is terminated.";
const STANDS =
  "The instance starts no further step. Running attempts are recorded, then it is terminated. Its effects remain; you can undo them later.";
const MANY_TAKEN_BACK =
  "Their effects are undone where an undo handler exists. A cancel cannot be stopped once it has begun. With `undo: false`, their effects remain.";
const MANY_STAND =
  "The instances are terminated and their effects remain. A cancel cannot be stopped once it has begun. You can undo each instance later.";
