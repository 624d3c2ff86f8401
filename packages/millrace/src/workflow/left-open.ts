import type { Pass } from "../pass/pass.ts";
import { selectAskedAt, selectCutOff } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import type { Seen } from "../store/inbox/entry.ts";
import { isAnswered } from "./found.ts";

/**
 * The steps that had no recorded outcome when an undo began. These steps failed without a record, or the preceding cancel or restart
 * interrupted them. The steps without an outcome are queried once per replay.
 */
export class LeftOpen {
  readonly #pass: Pass;
  #asked: Promise<{ cutOff: ReadonlySet<string>; undoneSince: number }> | undefined;

  constructor(pass: Pass) {
    this.#pass = pass;
  }

  /**
   * True for a step without a recorded outcome when the undo began. `last` is the newest entry of the step's effect. `failed` is true if
   * the code receives the step's failure. The result is false if an earlier replay of this undo has undone the step, because the step then
   * has a record. The outcome of a step that an operator excluded from the undo stays unknown.
   */
  async has(label: string, last: Seen | undefined, failed: boolean): Promise<boolean> {
    if (last !== undefined && last.state !== "failed") return false;
    const { cutOff, undoneSince } = await this.#known();
    return (
      (failed || cutOff.has(label) || this.#pass.inbox.mayStand(label)) &&
      !(last !== undefined && isAnswered(last) && last.updated_at >= undoneSince)
    );
  }

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
