import { session } from "./session.ts";

/** An action whose request got no response. If the user repeats the action in another dialog, the same idempotency key is sent. */
export interface Sent {
  key: string;
  reason: string;
}

const unanswered = new Map<string, Sent>();

export function sentBefore(act: string): Sent | undefined {
  return unanswered.get(act);
}

export function noteSent(act: string, reason: string, before = unanswered.get(act)): Sent {
  const sent = before ?? { key: crypto.randomUUID(), reason };
  unanswered.set(act, sent);
  return sent;
}

export function noteAnswered(act: string): void {
  unanswered.delete(act);
}

session.listen(({ state }) => state === "out" && unanswered.clear());
