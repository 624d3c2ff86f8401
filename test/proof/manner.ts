/** The settings of a trial. */
export interface Manner {
  /** The time of each phase to converge while no failure is injected. */
  patienceMs?: number;
  /**
   * The maximum time of each phase on a slow machine. Above 0, the timeout is counted in polls of `lookMs`: a machine that slows the run
   * slows the polls too. Default 0: the timeout is wall-clock time.
   */
  mostMs?: number;
  /** The additional time for a run that has not ended, to distinguish late from stuck. Default 0. */
  lateMs?: number;
  /** The interval between two polls of the run. */
  lookMs?: number;
  /** The run's name, which is not a prefix of another name. */
  name?: string;
}
