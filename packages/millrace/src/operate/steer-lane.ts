import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { askLane, type LaneKey } from "../inspect/lanes.ts";
import type { LaneVerb } from "../lanes/turns-stub.ts";
import type { Operator } from "../store/actions.ts";

export const SteeredLane = z
  .object({
    action_id: z.string(),
    message_id: z.string().nullable().meta({ description: "The id of the head message that was changed." }),
    instance_ids: z.array(z.string()).meta({ description: "Instances that no longer block the lane." }),
  })
  .meta({ id: "LaneSteered" });

/**
 * Steers a lane of the tenant. `resume`: also if a failed instance held the lane; `retry_head`: the lane tries its first message now;
 * `skip_head`: the first message becomes a dead letter, or the failed instance releases the lane. The lane stores the action together with
 * the change, and writes the audit row later. If `id` does not name the first message, nothing changes. Errors: `lane_not_found`;
 * `invalid_transition`, audited as no change.
 */
export async function steerLane(
  env: EngineEnv,
  by: Operator,
  name: LaneKey,
  { verb, id, reason }: { verb: LaneVerb; id?: string | undefined; reason: string },
): Promise<z.infer<typeof SteeredLane>> {
  const actionId = crypto.randomUUID();
  const { actor, tokenId, scope } = by;
  const answer = await askLane(env, by, name, (object) => object.steer({ verb, id, actionId, actor, tokenId, scope, reason }));
  if (answer.done) return { action_id: actionId, message_id: answer.messageId, instance_ids: answer.instanceIds };
  throw new MillraceError("invalid_transition", answer.reason, { from: answer.state, to: AIMS[verb], audited: true });
}

const AIMS: Record<LaneVerb, string> = { pause: "paused", resume: "moving", retry_head: "moving", skip_head: "moving" };
