import { Misuse, Refusal } from "../command.ts";
import { oneLine, paint, say } from "../terminal.ts";
import type { Letter, ReplayAnswer } from "./api.ts";
import { type Asked, callOf } from "./arguments.ts";
import { sayFacts } from "./list.ts";
import { issueLines } from "./refusal.ts";
import { ago, moment, shownJson, tell, typedJson } from "./words.ts";

export function sayLetter(letter: Letter): void {
  const { id, queue, message_type, idempotency_key, reason, error, issues, attempts, captured_at, state, escalation, replay } = letter;
  say(paint("bold", oneLine(`${message_type ?? "A message without a type"} is ${state}: ${reason}`)));
  sayFacts({
    ...{ id, queue, key: idempotency_key },
    captured: `${moment(captured_at)}, ${ago(captured_at)}, after ${attempts} ${attempts === 1 ? "attempt" : "attempts"}`,
    error,
    escalated: escalation && `by ${escalation.by}: ${escalation.note}`,
    replay: `${replay.outcome}: ${replay.why}`,
  });
  for (const line of issueLines(issues ?? [], error ?? "")) say(line);
  say(`message\n${shownJson(letter.body, 2)}`);
  if (state === "open") for (const line of nextLines(letter)) tell(line);
}

/** Replaces the payload of the message by the value of `--payload`. The engine inserts the original values of redacted fields. */
export async function correctLetter(body: Record<string, unknown>, { api, text }: Asked, [id = ""]: readonly string[]): Promise<void> {
  const payload = text("payload");
  if (payload === undefined) return;
  if (body.body !== undefined) throw new Misuse("Use --payload or --body, not both.");
  const payload_inline = await typedJson("payload", payload);
  const { body: message } = await api.get<Letter>(`/v1/dead-letters/${encodeURIComponent(id)}`);
  if (typeof message !== "object" || message === null || Array.isArray(message)) {
    throw new Refusal("The message has no payload field: send the whole message with --body.");
  }
  const { payload_ref: _, ...envelope } = message as Record<string, unknown>;
  body.body = { ...envelope, payload_inline };
}

export function sayReplayed({ sent, why, instance_id: id }: Replayed): void {
  tell(oneLine(sent ? why : `No change: ${why}`));
  if (sent && id !== null) tell(`Result: ${callOf("instances show", id)}`);
}

export type Replayed = Extract<ReplayAnswer, { sent: unknown }>;

/** Reasons of dead letters with an unreadable envelope or an unknown type. */
const OF_THE_WHOLE: readonly string[] = ["invalid_envelope", "unknown_message_type"];

function nextLines({ id, replay: { refused }, body }: Letter): string[] {
  const skip = callOf("dead-letters skip", id, "--reason …");
  const send = (option = "") => `Replay it: ${callOf("dead-letters replay", id, `--reason …${option}`)}, or skip it: ${skip}`;
  if (!refused) return [send()];
  if (refused.code === "idempotency_key_reused")
    return [`Other work has its key. Send its command again with a new key, and skip the dead letter: ${skip}`];
  const isWhole = OF_THE_WHOLE.includes(refused.code) || typeof body !== "object" || body === null || Array.isArray(body);
  return [
    send(isWhole ? " --body JSON, with the whole corrected message (docs/messages.md)" : " --payload JSON"),
    "A corrected message needs the scope of its type, such as enqueue, in addition to operate.",
  ];
}
