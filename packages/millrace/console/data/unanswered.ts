import { session } from "./session.ts";

/** An act that was sent and that nobody has answered: asked for again, from another dialog perhaps, it is the same act. */
export interface Sent {
  key: string;
  reason: string;
}

const unanswered = new Map<string, Sent>();

/** The same act as it was sent before, where no answer came. */
export function sentBefore(act: string): Sent | undefined {
  return unanswered.get(act);
}

/** Notes that an act is sent: under the key that it was sent under before, if it was. */
export function noteSent(act: string, reason: string, before = unanswered.get(act)): Sent {
  const sent = before ?? { key: crypto.randomUUID(), reason };
  unanswered.set(act, sent);
  return sent;
}

/** Somebody has said what came of it. */
export function noteAnswered(act: string): void {
  unanswered.delete(act);
}

session.listen(({ state }) => state === "out" && unanswered.clear());
