import { isSimulatedDeath } from "../../contract/crash-points.ts";
import { codeOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import type { Intake, Outcomes } from "../consumer.ts";
import { capture } from "./capture.ts";
import { isHopeless } from "./hopeless.ts";

/**
 * Handles failed messages of a lane. A failed message remains the lane's head. With the policy `park`, a message without a try left becomes
 * a dead letter. Then its row is marked as never started, so that the keeper does not start the instance out of order. Changes `outcomes`.
 * Never throws.
 */
export async function leaveInLane(intake: Intake, outcomes: Outcomes): Promise<undefined> {
  for (const [message, { did }] of outcomes) if (did === "put off") outcomes.set(message, { did: "retried", error: notCreated() });
  for (const [message, outcome] of outcomes) {
    if (!("error" in outcome)) continue;
    const { did, error, isRoutes } = outcome;
    outcomes.set(message, { did: "retried", error, isRoutes });
    const tries = intake.triesOf?.(message) ?? message.attempts;
    if (intake.consumer.onFailure !== "park" || !isGivenUp(intake, { tries, error, isRoutes, refused: did === "refused" })) continue;
    try {
      const [fate] = await capture(intake, [{ message, error, attempts: message.attempts, refused: true }]);
      if (typeof fate === "string") outcomes.set(message, { did: fate });
      else if (fate) sayNotStored(intake, fate.failed);
    } catch (failed) {
      sayNotStored(intake, failed);
    }
  }
}

interface Failed {
  /** The number of tries of the message, including the present one. */
  readonly tries: number;
  readonly error: unknown;
  /** True when a route's code threw the error. */
  readonly isRoutes?: boolean | undefined;
  /** True when the message's content is invalid. */
  readonly refused?: boolean;
}

/** True for a failed head of a lane without a try left, or with an error that a repeat cannot fix. */
export function isGivenUp(
  { consumer: { retries } }: Pick<Intake, "consumer">,
  { tries, error, isRoutes, refused = isHopeless(error) }: Failed,
): boolean {
  return refused || isHopeless(error) || (tries > retries.limit && costsTry({ error, isRoutes }));
}

/**
 * False for a failure that the message did not cause, such as an unavailable database, the batch's time limit, or a crash of the process.
 */
export function costsTry({ error, isRoutes }: Pick<Failed, "error" | "isRoutes">): boolean {
  return (isRoutes === true || codeOf(error) !== "unavailable") && !isSimulatedDeath(error);
}

/**
 * The error of a lane's message whose instance the platform does not create now. The keeper does not start commands that wait in a lane, so
 * the message stays in the lane although its row is committed.
 */
function notCreated(): MillraceError {
  return new MillraceError("unavailable", "The platform does not create the message's instance now.");
}

function sayNotStored({ consumer: { queue } }: Intake, error: unknown): void {
  logLine("error", { log: "dead_letters", queue: queue.name, stored: false, error: messageOf(error) });
}
