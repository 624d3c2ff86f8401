import { type Kind, kindOf, wasLate } from "../proof/account.ts";
import { namesOf } from "../proof/flow.ts";
import { type Proof, trialOn } from "../proof/prove.ts";
import { pause, type Stage } from "../proof/stage.ts";
import type { StepsOfAll } from "../proof/steps-of-all.ts";
import { Evidence } from "./evidence.ts";
import { Faults, type ProcessFault } from "./faults.ts";
import { caseOf } from "./programs.ts";
import { randomFrom } from "./random.ts";
import { remoteStage } from "./stage.ts";
import { withEngine } from "./workshop.ts";

export interface ChaosOptions {
  seed: number;
  /** The engine's faults; an empty list means none. */
  faults: readonly ProcessFault[];
  /** The number of concurrent programs. */
  lanes: number;
  /** The kind of the programs' guarded steps. */
  steps: StepsOfAll;
  /** Returns true to start another program. */
  goesOn: (so: { programs: number; kills: number }) => boolean;
  /** Gets each event as one log line. */
  say?: (line: string) => void;
}

/** The outcome of a run, as `--json` prints it. */
export interface ChaosResult {
  seed: number;
  /** Executed programs, with their restarts and undos. */
  programs: number;
  kills: number;
  /** All faults of the engine, including its process deaths. */
  faults: number;
  /** Accepted commands, including those that followed from events. */
  commands: number;
  /** Effects that may happen only once: in the upstream's ledger, and rows of commits. */
  effects: number;
  /** Problems by their kinds. */
  duplicates: number;
  lost: number;
  invented: number;
  stuck: number;
  /** Commands that ended without intervention, after a while. */
  late: number;
  /** Unknown outcomes that an operator had to settle. */
  parked: number;
  /** Set if mutants were requested as well. */
  mutants_caught: number | null;
  mutants: number | null;
  /** Time from the last fault, or from the beginning of a run, restart or undo if that was later, to its end. */
  slowest_convergence_s: number;
}

export interface ChaosRun {
  result: ChaosResult;
  /** The problems, each with the seed of its program. */
  problems: string[];
  /** Planned faults that did not happen: such a run does not count. */
  missed: readonly ProcessFault[];
  /** The folder with the evidence, if there are problems. */
  kept: string | undefined;
}

const LOOK_MS = 250;
/** The additional time for a run that has not ended: a late end is another kind of defect than a missing end. */
const LATE_MS = 240_000;
/** The maximum of problems. */
const ENOUGH = 20;
const TOLD_EVERY_MS = 15_000;
/** No faults after this duration of a program: it must end or be reported as stuck. */
const LONG_MS = 240_000;
/** The timeout of all programs together after the last fault: each has up to five phases. */
const HEALS_MS = 330_000 + LATE_MS;

/** Runs random programs on an engine with failing processes, lets the engine recover, and checks the results of each program. */
export function runChaos({ seed, faults: kinds, lanes, steps, goesOn, say = () => {} }: ChaosOptions): Promise<ChaosRun> {
  return withEngine(async ({ engine, database, upstreamUrl, folder }) => {
    say(`The engine runs at ${engine.url}; its state is in ${folder}.`);
    const evidence = new Evidence(folder);
    const trials = new Trials(seed, steps, evidence);
    const faults = new Faults(engine, database, randomFrom(seed), { underWay: () => trials.begun.size, asked: () => trials.asked });
    const stage = remoteStage({
      url: () => engine.url,
      upstreamUrl,
      database,
      disturbedUntil: () => faults.until(),
      asked: () => void trials.asked++,
    });
    const more = () => goesOn({ programs: trials.done, kills: faults.kills }) && trials.problems.length < ENOUGH;
    const told = setInterval(() => say(`${trials.said}, ${faults.said}`), TOLD_EVERY_MS);
    try {
      const working = trials.keepGoing(stage, lanes, more);
      while (kinds.length > 0 && more()) {
        if (trials.longestMs() > LONG_MS) await pause(LOOK_MS);
        else say(await faults.next(kinds));
      }
      await within(HEALS_MS, working, more);
    } catch (error) {
      trials.problems.push(`stuck: ${error}`);
      await evidence.keepHanging(stage, [...trials.begun.values()]);
    } finally {
      clearInterval(told);
    }
    if (trials.problems.length > 0) evidence.keepAll(database, engine.log);
    const result = await resultOf(stage, seed, trials, faults);
    return { result, problems: trials.problems, missed: faults.missed, kept: evidence.kept };
  });
}

async function resultOf(
  stage: Stage,
  seed: number,
  { done, problems, slowestMs, commands, effects }: Trials,
  faults: Faults,
): Promise<ChaosResult> {
  const countOf = (kind: Kind) => problems.filter((one) => kindOf(one) === kind).length;
  return {
    seed,
    programs: done,
    kills: faults.kills,
    faults: faults.count,
    commands,
    effects,
    parked: await parkedIn(stage),
    duplicates: countOf("duplicate"),
    lost: countOf("lost"),
    invented: countOf("invented"),
    stuck: countOf("stuck"),
    late: problems.filter(wasLate).length,
    mutants_caught: null,
    mutants: null,
    slowest_convergence_s: Math.round(slowestMs / 100) / 10,
  };
}

/** The number of concurrent programs. */
class Trials {
  /** The running ones, by name. */
  readonly begun = new Map<string, { name: string; seed: number; at: number }>();
  readonly problems: string[] = [];
  done = 0;
  asked = 0;
  slowestMs = 0;
  commands = 0;
  effects = 0;
  readonly #seed: number;
  readonly #steps: StepsOfAll;
  readonly #evidence: Evidence;
  #next = 0;

  constructor(seed: number, steps: StepsOfAll, evidence: Evidence) {
    this.#seed = seed;
    this.#steps = steps;
    this.#evidence = evidence;
  }

  get said(): string {
    const longest = Math.round(this.longestMs() / 1000);
    return `${this.done} programs done, ${this.begun.size} under way (the oldest for ${longest} s), ${this.problems.length} problems`;
  }

  longestMs(): number {
    return Math.max(0, ...[...this.begun.values()].map(({ at }) => Date.now() - at));
  }

  async keepGoing(stage: Stage, lanes: number, goesOn: () => boolean): Promise<void> {
    await Promise.all(
      Array.from({ length: lanes }, async () => {
        while (goesOn()) await this.#one(stage, this.#seed + this.#next++);
      }),
    );
  }

  async #one(stage: Stage, seed: number): Promise<void> {
    // No name is a prefix of another name.
    const given = `proof-${String(seed).padStart(12, "0")}`;
    const one = caseOf(seed, this.#steps);
    const [name = given] = namesOf(one.flow, given);
    this.begun.set(name, { name, seed, at: Date.now() });
    const proof: Proof = await trialOn(stage, one, { name: given, lookMs: LOOK_MS, lateMs: LATE_MS });
    this.begun.delete(name);
    this.done++;
    this.commands += proof.commands;
    this.effects += proof.effects;
    this.slowestMs = Math.max(this.slowestMs, proof.slowestMs);
    if (proof.problems.length === 0) return;
    const [first = ""] = proof.problems;
    this.problems.push(`seed ${seed}: ${first}`);
    await this.#evidence.keep(name, one, proof.problems, await stage.idOf(name));
  }
}

async function parkedIn({ rows }: Stage): Promise<number> {
  const [of] = await rows<{ n: number }>(
    "SELECT count(*) AS n FROM millrace_actions WHERE verb IN ('confirm', 'reject', 'retry_anyway') AND result = 'applied'",
  );
  return of?.n ?? 0;
}

/** The timeout of running work once no new program starts. */
async function within(ms: number, work: Promise<void>, goesOn: () => boolean): Promise<void> {
  let over = false;
  const done = work.finally(() => {
    over = true;
  });
  const late = (async () => {
    for (let endedAt = 0; !over; await pause(LOOK_MS)) {
      if (!goesOn()) endedAt ||= Date.now();
      if (endedAt > 0 && Date.now() - endedAt > ms) throw new Error(`not all programs have ended within ${ms / 1000} s`);
    }
  })();
  await Promise.race([done, late]);
}
