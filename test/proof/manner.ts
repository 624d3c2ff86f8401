/** How a trial is held. */
export interface Manner {
  /** How long each phase may take to converge while nothing is made to fail from outside. */
  patienceMs?: number;
  /**
   * How long each phase may take on a slow machine. Above 0, the patience is counted in polls of `lookMs`: a machine that slows the run
   * slows the polls too. Default 0: the patience is wall-clock time.
   */
  mostMs?: number;
  /** The further time for a run without an end, to distinguish late from stuck. Default 0. */
  lateMs?: number;
  /** How long between two looks at the run. */
  lookMs?: number;
  /** The run's name, which begins no other name. */
  name?: string;
}
