import type { EngineEnv } from "../../contract/bindings.ts";
import type { Envelope } from "../../contract/envelope.ts";
import { outboxId } from "../../contract/ids.ts";
import { type Statement, sql } from "../../contract/sql.ts";
import { type DeadLetterReader, getDeadLetter } from "../../inspect/dead-letters.ts";
import { pullIn } from "../../pull/keep-letter.ts";
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
import { REPLAYED, replayPulled } from "./replay-pulled.ts";

export interface Replayed {
  actionId: string;
  instanceId: string | null;
  /** False if no message was sent, because an instance has the message's key already, or because the dead letter was settled before. */
  sent: boolean;
  why: string;
}

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
  const actionId = actionIdOf(by);
  const action = (instanceId: string | null): Action => ({ id: actionId, verb: "replay", target: id, instanceId, reason, ...REPLAYED });
  if (letter.state !== "open") {
    const { instance_id: instanceId, state } = letter;
    await atomically(env.DB, [settleLetter(id, "replayed"), audit(by, action(instanceId), false)]);
    return { actionId, instanceId, sent: false, why: `The dead letter is already ${state}.` };
  }
  const pulled = pullIn(letter.queue);
  if (pulled !== undefined) return replayPulled(env, by, letter, { queue: pulled, reason, body });
  const read = await readAgain(env, catalog, operatorBy(by), letter, body);
  const instanceId = read.command?.id ?? null;
  const edited = { ...action(instanceId), detail: { edited: body !== undefined } };
  const { isApplied, status, outgoing } = await putBack(env, by, edited, settleLetter(id, "replayed"), read);
  const sent = isApplied && status === "accepted";
  if (sent) await relay(env, [outgoing]);
  return { actionId, instanceId, sent, why: whatCameOf(isApplied, status) };
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
  return status === "accepted"
    ? "The message is on its queue again."
    : `The instance of the command is already ${status}: nothing was sent.`;
}
