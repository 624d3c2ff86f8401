// What people ask of a run, counted: the audit is held against it.
import { codeOf } from "./stage.ts";

/** What people ask for, as the audit calls it. */
const VERBS = [
  "retry",
  "undo",
  "confirm",
  "reject",
  "retry_anyway",
  "approve",
  "reject_approval",
  "cancel",
  "pause",
  "resume",
  "restart",
  "skip_step",
  "close",
  "signal",
] as const;
export type Verb = (typeof VERBS)[number];

/** How often one thing was asked for, and heard: that it is promised (`done`), or why not (`refused`). */
interface Count {
  asked: number;
  done: number;
  refused: number;
}
export type Asked = Record<Verb, Count>;

/** Asks in the name of people, and counts what they hear. */
export class Requests {
  readonly counts = Object.fromEntries(VERBS.map((verb) => [verb, { asked: 0, done: 0, refused: 0 }])) as Asked;

  /** Asks for something once. What is refused is thrown. */
  async ask(verb: Verb, ask: () => Promise<unknown>): Promise<unknown> {
    const one = this.counts[verb];
    one.asked++;
    try {
      const answer = (await ask()) ?? true;
      one.done++;
      return answer;
    } catch (error) {
      // Refused for how things stand, it is on record as that.
      if (codeOf(error) === "invalid_transition") one.refused++;
      throw error;
    }
  }
}
