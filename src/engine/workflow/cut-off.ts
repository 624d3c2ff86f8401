import type { Pass } from "../pass/pass.ts";
import { selectCutOff } from "../store/actions.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { query } from "../store/retry.ts";
import { isAnswered } from "./found.ts";

/**
 * The steps that were cut off by the cancel, or the restart, which an undo follows: an attempt was under way, or its answer was lost, when
 * the run was ended. Asked once in a pass. An undo of what had ended by itself has none.
 */
export class CutOff {
  readonly #pass: Pass;
  #asked: Promise<{ labels: ReadonlySet<string>; undoneSince: number }> | undefined;

  constructor(pass: Pass) {
    this.#pass = pass;
  }

  /**
   * Whether a step was, and nothing on record says what came of that; `last`: the newest entry of its effect. One that this undo itself has
   * taken back, before its present pass, had come to be on record; one that a person has it leave alone stays unknown.
   */
  async has(label: string, last: Seen | undefined): Promise<boolean> {
    if (last !== undefined && last.state !== "failed") return false;
    this.#asked ??= this.#ask().catch((error) => {
      this.#asked = undefined;
      throw error;
    });
    const { labels, undoneSince } = await this.#asked;
    return labels.has(label) && !(last !== undefined && isAnswered(last) && last.updated_at >= undoneSince);
  }

  async #ask(): Promise<{ labels: ReadonlySet<string>; undoneSince: number }> {
    const { env, run } = this.#pass;
    const rows = await query<{ label: string; at: number }>(env.DB, selectCutOff(run.undo));
    return { labels: new Set(rows.map(({ label }) => label)), undoneSince: rows[0]?.at ?? 0 };
  }
}
