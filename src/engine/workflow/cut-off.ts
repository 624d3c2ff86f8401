import type { Pass } from "../pass/pass.ts";
import { selectCutOff } from "../store/actions.ts";
import { query } from "../store/retry.ts";

/**
 * The steps that were cut off by the cancel, or the restart, which an undo follows: an attempt was under way, or its answer was lost, when
 * the run was ended. Asked once in a pass. An undo of what had ended by itself has none.
 */
export class CutOff {
  readonly #pass: Pass;
  #labels: Promise<ReadonlySet<string>> | undefined;

  constructor(pass: Pass) {
    this.#pass = pass;
  }

  async has(label: string): Promise<boolean> {
    this.#labels ??= this.#ask().catch((error) => {
      this.#labels = undefined;
      throw error;
    });
    return (await this.#labels).has(label);
  }

  async #ask(): Promise<ReadonlySet<string>> {
    const { env, run } = this.#pass;
    const rows = await query<{ label: string }>(env.DB, selectCutOff(run.undo));
    return new Set(rows.map(({ label }) => label));
  }
}
