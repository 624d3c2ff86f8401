/** The settings of a trial. */
export interface Manner {
  /** The time of each phase to converge while no failure is injected. */
  patienceMs?: number;
  /**
   * The maximum time of each phase on a slow machine. Above 0, the patience is counted in polls of `lookMs`: a machine that slows
   * the run slows the polls too. Default 0: the patience is wall-clock time.
   */
  mostMs?: number;
  /** The further time for a run without an end, to distinguish late from stuck. Default 0. */
  lateMs?: number;
  /** The interval between two polls of the run. */
  lookMs?: number;
  /** The run's name, which is no prefix of another. */
  name?: string;
}
