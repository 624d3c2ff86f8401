import { type EngineEnv, objectBinding } from "../../contract/bindings.ts";
import { MillraceError } from "../../contract/errors.ts";
import type { DeadLetterReader, FullDeadLetter } from "../../inspect/dead-letters.ts";
import { pullQueueOf } from "../../pull/client.ts";
import { pulledMessage } from "../../pull/keep-letter.ts";
import type { PullEnv } from "../../pull/stub.ts";
import { actionIdOf } from "../../store/actions.ts";
import { settleLetter } from "../../store/dead-letters.ts";
import { act } from "../act.ts";

export const REPLAYED = { before: { state: "open" }, after: { state: "replayed" } };

interface Asked {
  queue: string;
  reason: string;
  /** A correction, which is always refused, because the deployment's own code produced the message. */
  body?: unknown;
}

/**
 * Sends the message of a pull queue's dead letter again, at the end of the queue. The message is sent before its dead letter is settled.
 * The message always has the same id, so a repeated call after a crash adds no second message. Errors: `forbidden` for a correction; the
 * errors of the queue, after which the dead letter stays open.
 */
export async function replayPulled(
  env: EngineEnv & PullEnv,
  by: DeadLetterReader,
  { id, body }: FullDeadLetter,
  { queue, reason, body: correction }: Asked,
): Promise<{ actionId: string; instanceId: null; sent: boolean; why: string }> {
  if (correction !== undefined) {
    throw new MillraceError("forbidden", "A message of a pull queue is replayed unchanged: send no `body`.", {
      issues: [{ path: "body", message: "cannot be corrected" }],
    });
  }
  objectBinding(env, "PULL_QUEUES");
  const { body: message, contentType } = pulledMessage(body);
  const idempotencyKey = `dead-letter/${id}`;
  await pullQueueOf(env, { name: queue }, by.tenantId).send(message, { contentType, idempotencyKey });
  const action = { id: actionIdOf(by), verb: "replay", target: id, instanceId: null, reason, ...REPLAYED } as const;
  const { isApplied } = await act(env, by, action, { change: settleLetter(id, "replayed") });
  const why = isApplied ? "The message is on its queue again." : "Another action settled the dead letter at the same time.";
  return { actionId: action.id, instanceId: null, sent: isApplied, why };
}
