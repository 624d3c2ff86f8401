import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { askLane, type LaneKey } from "../inspect/lanes.ts";
import type { LaneVerb } from "../lanes/turns-stub.ts";
import type { Operator } from "../store/actions.ts";

/** What was done with a lane. */
export interface Steering {
  actionId: string;
  /** The message that it was done to, if it was one. */
  messageId: string | null;
  /** The instances that keep nobody from their turn any more. */
  instanceIds: string[];
}

/**
 * Steers a lane of the tenant. `pause`: it hands nothing more out; `resume`: it goes on, also past an instance that it was held for;
 * `retry_head`: its head is tried at once; `skip_head`: its head becomes a dead letter, or an instance that failed keeps its place no
 * more. The lane keeps the action with its change, and writes its audit row when the database has time. `id` is the message or instance
 * that is meant, if another may stand there by now: nothing else is done then. Errors: `lane_not_found`; `invalid_transition`, audited as
 * no change.
 */
export async function steerLane(
  env: EngineEnv,
  by: Operator,
  name: LaneKey,
  { verb, id, reason }: { verb: LaneVerb; id?: string | undefined; reason: string },
): Promise<Steering> {
  const actionId = crypto.randomUUID();
  const { actor, tokenId, scope } = by;
  const answer = await askLane(env, by, name, (object) => object.steer({ verb, id, actionId, actor, tokenId, scope, reason }));
  if (answer.done) return { actionId, messageId: answer.messageId, instanceIds: answer.instanceIds };
  throw new MillraceError("invalid_transition", answer.reason, { from: answer.state, to: AIMS[verb], audited: true });
}

const AIMS: Record<LaneVerb, string> = { pause: "paused", resume: "moving", retry_head: "moving", skip_head: "moving" };
