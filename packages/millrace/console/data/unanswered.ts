import { session } from "./session.ts";

/** An action that was sent without a response. A repeat of the action in another dialog has the same key. */
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
