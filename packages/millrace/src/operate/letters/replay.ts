import * as z from "zod";
import { type EngineEnv, objectBinding } from "../../contract/bindings.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { MillraceError } from "../../contract/errors.ts";
import { outboxId } from "../../contract/ids.ts";
import { type Statement, sql } from "../../contract/sql.ts";
import { type DeadLetterReader, type FullDeadLetter, getDeadLetter } from "../../inspect/dead-letters.ts";
import { pullQueueOf } from "../../pull/client.ts";
import { pulledMessage, pullIn } from "../../pull/keep-letter.ts";
import type { PullEnv } from "../../pull/stub.ts";
import { relay } from "../../recorder/relay.ts";
import { type Action, actionIdOf, audit, type Operator } from "../../store/actions.ts";
import { atomically } from "../../store/d1/retry.ts";
import { settleLetter } from "../../store/dead-letters.ts";
import { acceptAgain } from "../../store/instances/accept.ts";
import { type Outgoing, sendBehind } from "../../store/outbox.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { act } from "../act.ts";
import { correctionOf } from "../as-stored.ts";
import { operatorBy, type Resendable, readAgain } from "./read-again.ts";

/** Answer of a replay. */
export const Replayed = z
  .object({
    action_id: z.string(),
    instance_id: z.string().nullable(),
    sent: z.boolean().meta({ description: "False if nothing was left to do." }),
    why: z.string(),
  })
  .meta({ id: "Replayed" });
export type Replayed = z.infer<typeof Replayed>;

/**
 * Sends a dead letter's message back to its queue under the same key, with a validated correction if the request contains a correction. One
 * batch writes the dead letter, the audit row and the message. Therefore a second call changes nothing, and a crash loses nothing. Errors:
 * `dead_letter_not_found`; `forbidden` for a correction outside the token's scopes; and the errors of an invalid message, after which the
 * dead letter stays open.
 */
export async function replayDeadLetter(
  env: EngineEnv,
  catalog: Catalog,
  by: DeadLetterReader,
  id: string,
  { reason, body: correction }: { reason: string; body?: unknown },
): Promise<Replayed> {
  const letter = await getDeadLetter(env, by, id);
  const body = correctionOf(catalog, letter, correction);
  const states = { before: { state: "open" }, after: { state: "replayed" } };
  const action: Action = { id: actionIdOf(by), verb: "replay", target: id, instanceId: null, reason, ...states };
  const change = settleLetter(id, "replayed");
  const answer = { action_id: action.id, instance_id: null };
  if (letter.state !== "open") {
    const { instance_id, state } = letter;
    await atomically(env.DB, [change, audit(by, { ...action, instanceId: instance_id }, false)]);
    return { ...answer, instance_id, sent: false, why: `The dead letter is already ${state}.` };
  }
  const pulled = pullIn(letter.queue);
  if (pulled !== undefined) {
    if (body !== undefined) throw pulledIsUnchanged();
    await sendToPull(env, by, letter, pulled);
    const { isApplied: sent } = await act(env, by, action, { change });
    return { ...answer, sent, why: sent ? SENT : "Another action settled the dead letter at the same time." };
  }
  const read = await readAgain(env, catalog, operatorBy(by), letter, body);
  const instanceId = read.command?.id ?? null;
  const edited = { ...action, instanceId, detail: { edited: body !== undefined } };
  const { isApplied, status, outgoing } = await putBack(env, by, edited, change, read);
  const sent = isApplied && status === "accepted";
  if (sent) await relay(env, [outgoing]);
  return { ...answer, instance_id: instanceId, sent, why: whatCameOf(isApplied, status) };
}

/**
 * Sends the message of a pull queue's dead letter again, at the end of the queue. The message is sent before its dead letter is settled.
 * The message always has the same id, so a repeated call after a crash adds no second message. Errors: the errors of the queue, after which
 * the dead letter stays open.
 */
async function sendToPull(env: EngineEnv & PullEnv, by: Operator, { id, body }: FullDeadLetter, queue: string): Promise<void> {
  objectBinding(env, "PULL_QUEUES");
  const { body: message, contentType } = pulledMessage(body);
  await pullQueueOf(env, { name: queue }, by.tenantId).send(message, { contentType, idempotencyKey: `dead-letter/${id}` });
}

/** The refusal of a correction of a pull queue's message, because the deployment's own code produced the message. */
export function pulledIsUnchanged(): MillraceError {
  const issues = [{ path: "body", message: "cannot be corrected" }];
  return new MillraceError("forbidden", "A message of a pull queue is replayed unchanged: send no `body`.", { issues });
}

/**
 * Commits the return of a dead letter's message to its queue as a new message. `change` settles the dead letter. The other writes apply
 * only if `change` changed a row, so only one of several concurrent calls sends the message. Returns the status of the command's instance,
 * and the message to send if this status is `accepted`.
 */
export async function putBack(
  env: EngineEnv,
  by: Operator,
  action: Action,
  change: Statement,
  { envelope, command, before, queue }: Resendable,
): Promise<{ isApplied: boolean; status: string; outgoing: Outgoing }> {
  // Copies of the message without this mark are older than the replay.
  const marked: Envelope = { ...envelope, replay: action.id };
  const outgoing: Outgoing = { id: outboxId(marked), queue, delaySeconds: 0, body: JSON.stringify(marked) };
  const { isApplied, answers } = await act(env, by, action, {
    change,
    also: {
      again: command ? acceptAgain(command, before, action.id) : sendBehind(outgoing, action.id),
      row: command ? sql`SELECT status FROM millrace_instances WHERE id = ${command.id}` : [],
    },
  });
  // If the key's instance has no row, the instance is pruned. The tombstone of the key prevents another run.
  const status = command ? String(answers.row[0]?.status ?? "pruned") : "accepted";
  return { isApplied, status, outgoing };
}

function whatCameOf(isApplied: boolean, status: string): string {
  if (!isApplied) return "Another action replayed or skipped the dead letter at the same time: nothing was sent.";
  return status === "accepted" ? SENT : `The instance of the command is already ${status}: nothing was sent.`;
}

const SENT = "The message is on its queue again.";
