// Operators' requests about a run, counted: the audit is compared with it.
import { codeOf } from "./stage.ts";

/** The requests, by the audit's names. */
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
  "release",
  "signal",
] as const;
export type Verb = (typeof VERBS)[number];

/** The number of sends of one request, and of its responses: promised (`done`), or refused (`refused`). */
interface Count {
  asked: number;
  done: number;
  refused: number;
}
export type Asked = Record<Verb, Count>;

/** Sends requests in operators' names, and counts the responses. */
export class Requests {
  readonly counts = Object.fromEntries(VERBS.map((verb) => [verb, { asked: 0, done: 0, refused: 0 }])) as Asked;

  /** Sends one request. Errors: its refusal. */
  async ask(verb: Verb, ask: () => Promise<unknown>): Promise<unknown> {
    const one = this.counts[verb];
    one.asked++;
    try {
      const answer = (await ask()) ?? true;
      one.done++;
      return answer;
    } catch (error) {
      // A request that is refused for the current status is audited as refused.
      if (codeOf(error) === "invalid_transition") one.refused++;
      throw error;
    }
  }
}
