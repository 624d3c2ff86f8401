// What became of a run that a person has stopped before its code came to its end: cancelled, or closed.
import { judge, openOf, rowOf } from "./judge.ts";
import type { Expectation } from "./model.ts";
import type { Operators } from "./operators.ts";
import { possibleOf } from "./possible.ts";
import type { Stage, Subject } from "./stage.ts";

/** What else is known of the run that was stopped. */
export interface Known {
  /** Earlier ways, which were taken back since. */
  before: readonly Expectation[];
  letters: readonly string[];
  /** An undo has begun in the midst of it. */
  cut: boolean;
  skips: boolean;
}

/** How a run stands that has ended before its time. */
interface Judged {
  problems: string[];
  /** Nothing more is to come of that end: somebody may have the run go on. */
  isOver: boolean;
  /** A cancel has taken back what the run did. */
  isUndone: boolean;
}

const WAITS: Judged = { problems: [], isOver: false, isUndone: false };

/** Judges what is left of a run that was cancelled or closed: each effect once at most, or taken back, in reverse order. */
export class Stops {
  readonly #stage: Stage;
  readonly #run: Subject;
  readonly #operators: Operators;
  /** Cancels of which what is left was judged. */
  readonly #judged = new Set<string>();

  constructor(stage: Stage, run: Subject, operators: Operators) {
    this.#stage = stage;
    this.#run = run;
    this.#operators = operators;
  }

  /** Where a cancel has ended the run, that is judged once all is quiet and nobody says anything more (`isSaid`). */
  async judge(known: Known, isSaid: boolean): Promise<Judged> {
    const stop = await this.#stop();
    if (!stop || this.#judged.has(stop.id)) return { ...WAITS, isOver: true };
    if (!isSaid || (await openOf(this.#stage, this.#run, "terminated")).length > 0) return WAITS;
    const problems = [...(await this.#left(known, stop.isUndone)), ...(await this.#operators.begunBehindCancel())];
    // Somebody may have had it run again meanwhile.
    if ((await this.#stop())?.id !== stop.id) return WAITS;
    this.#judged.add(stop.id);
    return { problems: problems.map((one) => `cancelled: ${one}`), isOver: true, isUndone: stop.isUndone };
  }

  /** What was closed stays closed, whatever operators ask for. */
  async judgeClosed(known: Known): Promise<string[]> {
    const problems = [...(await this.#left(known, false)), ...(await this.#operators.moveClosed())];
    const row = await rowOf(this.#stage, this.#run.id);
    return row?.status === "skipped" ? problems : [...problems, `invented: it is ${row?.status}`];
  }

  #left(known: Known, isUndone: boolean): Promise<string[]> {
    const expected = possibleOf(this.#run.program);
    const trace = { note: 0, did: {}, failed: [], decided: {} };
    return judge(this.#stage, this.#run, { ...known, ended: isUndone ? "terminated" : "complete", expected, trace, stopped: true });
  }

  /** The cancel by which the run is terminated now; undefined where it is not, or by something else. */
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
