import { isSimulatedDeath } from "../../contract/crash-points.ts";
import { codeOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import type { Intake, Outcomes } from "../consumer.ts";
import { capture } from "./capture.ts";
import { isHopeless } from "./hopeless.ts";

/**
 * What is done about messages of a lane that could not be taken in: they stay its head. One that is to be parked becomes a dead letter
 * here, and its row says that it never starts: whatever the lane gives up, the keeper must not start out of turn. Changes `outcomes`.
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
  /** Those that it has had, this one included. */
  readonly tries: number;
  readonly error: unknown;
  /** True when the code of a route threw it. */
  readonly isRoutes?: boolean | undefined;
  /** True when its own content is at fault. */
  readonly refused?: boolean;
}

/** True for a head that has had all its tries, or that no try can mend. */
export function isGivenUp(
  { consumer: { retries } }: Pick<Intake, "consumer">,
  { tries, error, isRoutes, refused = isHopeless(error) }: Failed,
): boolean {
  return refused || isHopeless(error) || (tries > retries.limit && costsTry({ error, isRoutes }));
}

/** False for a failure that is not the message's: the database is away, its batch had its time, or its process died. */
export function costsTry({ error, isRoutes }: Pick<Failed, "error" | "isRoutes">): boolean {
  return (isRoutes === true || codeOf(error) !== "unavailable") && !isSimulatedDeath(error);
}

/** Its row is committed, and the keeper does not start what waits for its turn: so its message stays where it is. */
function notCreated(): MillraceError {
  return new MillraceError("unavailable", "The platform does not create its instance now.");
}

function sayNotStored({ consumer: { queue } }: Intake, error: unknown): void {
  logLine("error", { log: "dead_letters", queue: queue.name, stored: false, error: messageOf(error) });
}
