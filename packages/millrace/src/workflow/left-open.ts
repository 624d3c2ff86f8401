import type { Pass } from "../pass/pass.ts";
import { selectAskedAt, selectCutOff } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { isAnswered } from "./found.ts";

/**
 * The steps of which nothing on record says what came of them when an undo began: those that failed so, and those that were cut off by the
 * cancel, or the restart, which it follows, because an attempt was under way, or its answer was lost. Asked once in a pass.
 */
export class LeftOpen {
  readonly #pass: Pass;
  #asked: Promise<{ cutOff: ReadonlySet<string>; undoneSince: number }> | undefined;

  constructor(pass: Pass) {
    this.#pass = pass;
  }

  /**
   * Whether a step is one of them; `last`: the newest entry of its effect; `failed`: the code is told that it failed. One that this undo
   * itself has taken back, before its present pass, had come to be on record; one that a person has it leave alone stays unknown.
   */
  async has(label: string, last: Seen | undefined, failed: boolean): Promise<boolean> {
    if (last !== undefined && last.state !== "failed") return false;
    const { cutOff, undoneSince } = await this.#known();
    return (
      (failed || cutOff.has(label) || this.#pass.inbox.mayStand(label)) &&
      !(last !== undefined && isAnswered(last) && last.updated_at >= undoneSince)
    );
  }

  /** The steps that were cut off, also those that only read. */
  async cutOff(): Promise<ReadonlySet<string>> {
    return (await this.#known()).cutOff;
  }

  #known(): Promise<{ cutOff: ReadonlySet<string>; undoneSince: number }> {
    this.#asked ??= this.#ask().catch((error) => {
      this.#asked = undefined;
      throw error;
    });
    return this.#asked;
  }

  async #ask(): Promise<{ cutOff: ReadonlySet<string>; undoneSince: number }> {
    const { env, run } = this.#pass;
    const [rows, [asked]] = await Promise.all([
      query<{ label: string }>(env.DB, selectCutOff(run.undo)),
      query<{ at: number }>(env.DB, selectAskedAt(run.undo)),
    ]);
    return { cutOff: new Set(rows.map(({ label }) => label)), undoneSince: asked?.at ?? 0 };
  }
}
