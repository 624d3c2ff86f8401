// The result of a run that an operator has stopped before its code ended: cancelled, or closed.
import { judge, openOf, rowOf } from "./judge.ts";
import type { Expectation } from "./model.ts";
import type { Operators } from "./operators.ts";
import { possibleOf } from "./possible.ts";
import type { Stage, Subject } from "./stage.ts";

/** Further state of the stopped run. */
export interface Known {
  /** Earlier branches, which were undone. */
  before: readonly Expectation[];
  letters: readonly string[];
  /** An undo has started in the middle of the run. */
  cut: boolean;
  skips: boolean;
}

/** The status of a run that has ended early. */
interface Judged {
  problems: string[];
  /** That end is final, although an operator may let the run continue. */
  isOver: boolean;
  /** A cancel has undone the run. */
  isUndone: boolean;
}

const WAITS: Judged = { problems: [], isOver: false, isUndone: false };

/** Checks the remaining effects of a run that was cancelled or closed: each effect once at most, or undone, in reverse order. */
export class Stops {
  readonly #stage: Stage;
  readonly #run: Subject;
  readonly #operators: Operators;
  /** Cancels whose remaining effects were checked. */
  readonly #judged = new Set<string>();

  constructor(stage: Stage, run: Subject, operators: Operators) {
    this.#stage = stage;
    this.#run = run;
    this.#operators = operators;
  }

  /** If a cancel has ended the run, that is checked once no message is pending and nothing more is published (`isSaid`). */
  async judge(known: Known, isSaid: boolean): Promise<Judged> {
    const stop = await this.#stop();
    if (!stop || this.#judged.has(stop.id)) return { ...WAITS, isOver: true };
    if (!isSaid || (await openOf(this.#stage, this.#run, "terminated")).length > 0) return WAITS;
    const problems = [...(await this.#left(known, stop.isUndone)), ...(await this.#operators.begunBehindCancel())];
    // An operator may have restarted it meanwhile.
    if ((await this.#stop())?.id !== stop.id) return WAITS;
    this.#judged.add(stop.id);
    return { problems: problems.map((one) => `cancelled: ${one}`), isOver: true, isUndone: stop.isUndone };
  }

  /** A closed run remains closed, for any request. */
  async judgeClosed(known: Known): Promise<string[]> {
    const problems = [...(await this.#left(known, false)), ...(await this.#operators.moveClosed())];
    const row = await rowOf(this.#stage, this.#run.id);
    return row?.status === "skipped" ? problems : [...problems, `invented: the closed run has the status ${row?.status}`];
  }

  #left(known: Known, isUndone: boolean): Promise<string[]> {
    const expected = possibleOf(this.#run.program);
    const trace = { note: 0, did: {}, failed: [], decided: {} };
    return judge(this.#stage, this.#run, { ...known, ended: isUndone ? "terminated" : "complete", expected, trace, stopped: true });
  }

  /** The cancel that terminated the run; undefined if it is not terminated, or not by a cancel. */
  async #stop(): Promise<{ id: string; isUndone: boolean } | undefined> {
    const [row] = await this.#stage.rows<{ id: string; undone: number }>(
      `SELECT a.id, a.detail->>'undo' AS undone FROM millrace_actions a JOIN millrace_instances i ON i.id = a.instance_id
       WHERE i.id = ?1 AND i.status = 'terminated' AND a.verb = 'cancel' AND a.result = 'applied' AND (i.undo = a.id OR a.id = (
         SELECT id FROM millrace_actions last WHERE last.instance_id = ?1 AND last.result = 'applied'
           AND last.verb IN ('cancel', 'undo', 'retry', 'restart', 'skip_step', 'close') ORDER BY last.at DESC LIMIT 1))`,
      this.#run.id,
    );
    return row && { id: row.id, isUndone: row.undone === 1 };
  }
}
