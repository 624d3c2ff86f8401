import type { LedgerEntry } from "../upstream/server.ts";
import { IT_ENDED, type Verdict } from "./account.ts";
import { breakOff, isBrokenOff } from "./breaks.ts";
import { BOUNDARIES, type Counts, type Fault, PHASES, type Phase, type Watch } from "./fault.ts";
import { type Flow, namesOf } from "./flow.ts";
import { judgeFlow } from "./flow-judge.ts";
import { wrongInJournal } from "./journal.ts";
import { evidenceOf, judge, ledgerOf, openOf, platformOf, rowOf, undosOf, wrongInAudit } from "./judge.ts";
import type { Manner } from "./manner.ts";
import { type Expectation, expectationOf } from "./model.ts";
import { BY_HAND } from "./orders.ts";
import { patiently } from "./people.ts";
import { possibleOf } from "./possible.ts";
import type { Program, Trace } from "./program.ts";
import { rounds } from "./rounds.ts";
import { noteLength } from "./senders.ts";
import { pause, type Stage, type Subject } from "./stage.ts";
import { type Known, Stops } from "./stopped.ts";
import { type Tally, tallyOf } from "./tally.ts";
import { Outside, throwsByRun, type World } from "./world.ts";

/** A program, its faults, and the external events. */
export interface Alone {
  program: Program;
  faults?: readonly Fault[];
  world?: Partial<World>;
}

/** A case: a program, and the flow control that it shares with other programs. */
export interface Case extends Alone {
  flow?: Flow | undefined;
}

/** The result of a case. */
export interface Proof extends Tally {
  /** The problems; empty when every guarantee was kept. */
  problems: string[];
  /** The number of crossings of each boundary: the largest of a case's programs. */
  crossed: Partial<Record<Phase, Counts>>;
  /** The number of planned faults that happened. */
  struck: number;
  /** The time of the slowest of its phases, from the last disturbance to its end. */
  slowestMs: number;
  /** The number of runs that waited for their slot or their time, and of runs that a later one has replaced. */
  waited: number;
  replaced: number;
}

const NOTHING: Proof = { problems: [], crossed: {}, struck: 0, slowestMs: 0, waited: 0, replaced: 0, commands: 0, effects: 0, actions: {} };

/** The timeout for everything to end once the faults are over. */
const CONVERGES_MS = 60_000;
const LOOK_MS = 100;
/** The maximum of operators' retries. */
const RETRIES = 40;
/** The time after the end of a run in which no further effect may happen. */
const QUIET_MS = 150;

/** Runs a case on an engine: each program's run, its restarts, its undo, and its run after that. */
export async function trialOn(stage: Stage, { flow, ...main }: Case, manner: Manner = {}): Promise<Proof> {
  const { name: given = `proof-${crypto.randomUUID().slice(0, 13)}`, ...own } = manner;
  const all = [{ ...main, afterMs: 0 }, ...(flow?.beside ?? [])];
  const runs = await Promise.all(
    namesOf(flow, given).map(async (name, nth) => ({ name, id: await stage.idOf(name), program: all[nth]?.program ?? main.program })),
  );
  // A run waits for the ends of all others.
  const times: Times = { mostMs: 0, lateMs: 0, lookMs: LOOK_MS, ...own, patienceMs: (own.patienceMs ?? CONVERGES_MS) * runs.length };
  const proofs = await Promise.all(
    runs.map(async (run, nth) => {
      await pause(all[nth]?.afterMs ?? 0);
      return lone(stage, run, all[nth] ?? main, times);
    }),
  );
  const { problems, ...flowing } = flow ? await judgeFlow(stage, flow.is, runs) : { problems: [], waited: 0, replaced: 0 };
  return { ...together(proofs, problems), ...flowing };
}

/** Runs one program of a case. */
function lone(stage: Stage, run: Subject, { faults = [], world = {} }: Alone, times: Times): Promise<Proof> {
  const all: World = { copies: 0, clicks: [], orders: [], restarts: 0, ends: "stays", ...world };
  return new Trial(stage, run, { faults, world: all, times })
    .whole()
    .catch((error) => ({ ...NOTHING, problems: [`stuck: threw ${String(error)}`] }));
}

/** The result of a case, from those of its programs. */
function together(proofs: readonly Proof[], problems: readonly string[]): Proof {
  const sum = (of: (proof: Proof) => number) => proofs.reduce((all, one) => all + of(one), 0);
  const actions: Record<string, number> = {};
  for (const one of proofs) for (const [verb, n] of Object.entries(one.actions)) actions[verb] = (actions[verb] ?? 0) + n;
  return {
    ...(proofs[0] ?? NOTHING),
    problems: [...proofs.flatMap((one) => one.problems), ...problems],
    crossed: Object.fromEntries(PHASES.map((phase) => [phase, mostOf(proofs.flatMap(({ crossed }) => crossed[phase] ?? []))])),
    struck: sum(({ struck }) => struck),
    commands: sum(({ commands }) => commands),
    effects: sum(({ effects }) => effects),
    slowestMs: Math.max(...proofs.map(({ slowestMs }) => slowestMs)),
    actions,
  };
}

const mostOf = (counts: readonly Counts[]): Counts =>
  Object.fromEntries(BOUNDARIES.map((boundary) => [boundary, Math.max(0, ...counts.map((one) => one[boundary] ?? 0))])) as Counts;

type Times = Required<Omit<Manner, "name">>;
type Planned = { faults: readonly Fault[]; world: World; times: Times };

class Trial {
  readonly #stage: Stage;
  readonly #run: Subject;
  readonly #world: World;
  readonly #faults: readonly Fault[];
  readonly #times: Times;
  readonly #outside: Outside;
  readonly #stops: Stops;
  readonly #begunAt = Date.now();
  readonly #before: Expectation[] = [];
  readonly #proof: Proof = { ...NOTHING, problems: [], crossed: {} };
  #last: { expected: Expectation; trace: Trace } | undefined;
  readonly #byHand: Trace["did"] = {};
  #hasClicked = false;
  #undos = 0;
  #isClosed = false;

  constructor(stage: Stage, run: Subject, { faults, world, times }: Planned) {
    this.#stage = stage;
    this.#run = run;
    this.#world = world;
    this.#faults = faults;
    this.#times = times;
    this.#outside = new Outside(stage, run, world, faults.length === 0 && stage.disturbedUntil() === 0);
    this.#stops = new Stops(stage, run, this.#outside.operators);
  }

  async whole(): Promise<Proof> {
    await this.#lived();
    Object.assign(this.#proof, await tallyOf(this.#stage, this.#run));
    if (this.#world.old && this.#stage.growOld && this.#isFine) this.#add(await this.#longAfter(), "long after: ");
    return this.#proof;
  }

  /** After the run's rows were removed, a redelivery has no effect. */
  async #longAfter(): Promise<string[]> {
    const { id, name } = this.#run;
    const left = async () => {
      const own = await this.#stage.rows("SELECT id FROM probe_rows WHERE name LIKE ?1", `${name}/%`);
      return (await this.#done()).length + own.length;
    };
    const before = await left();
    await this.#stage.growOld?.(this.#run);
    const problems = await this.#outside.senders.longAfter();
    await rounds(this.#stage);
    await pause(QUIET_MS);
    const more = (await left()) - before;
    const again = await rowOf(this.#stage, id);
    if (again) problems.push(`duplicate: the instance was deleted, but has the status ${again.status} again`);
    return more === 0 ? problems : [...problems, `duplicate: ${more} effects happened again`];
  }

  async #lived(): Promise<void> {
    const { restarts, ends } = this.#world;
    await this.#phase("run", "complete", async () => {
      this.#add(await this.#outside.ask());
      void Promise.all([
        this.#outside.operators.act(),
        ...(this.#world.breaks ?? []).map((afterMs) => breakOff(this.#stage, this.#run, afterMs)),
      ]).finally(() => {
        this.#hasClicked = true;
      });
    });
    this.#outside.operators.calm();
    for (let nth = 0; nth < restarts && this.#isFine && !this.#isClosed; nth++) await this.#restart();
    // A run without undoable effects is not undone: the engine refuses that.
    if (this.#isClosed) return;
    const canBeUndone = [...(this.#last?.expected.effects.values() ?? [])].some(({ stays, least }) => !stays && least === 1);
    if (ends === "stays" || !canBeUndone || !this.#isFine) return;
    this.#undos++;
    await this.#phase("undo", "terminated", () => patiently(() => this.#outside.operators.undo("called off")));
    if (ends === "undone" || !this.#isFine) return;
    await this.#phase("again", "complete", () => patiently(() => this.#outside.operators.retry("the order is wanted again")));
  }

  /** A complete run is replayed once more: no effect is repeated, and no event or answer that the code waits for occurs. */
  async #restart(): Promise<void> {
    const { id } = this.#run;
    const before = await this.#done();
    await this.#phase("restart", "complete", () => this.#stage.restart(id));
    const isCertain = this.#last && [...this.#last.expected.effects.values()].every(({ least }) => least === 1);
    const more = (await this.#done()).slice(before.length).map(({ subject }) => subject);
    if (isCertain && more.length > 0) this.#add([`restart: duplicate: ${more.join(", ")} happened again`]);
  }

  /**
   * The upstream's effects. If a replay was interrupted, its running effects continue during the next replay, and a natural effect of it
   * may come late, as its class permits.
   */
  async #done(): Promise<LedgerEntry[]> {
    const all = await ledgerOf(this.#stage, this.#run.name);
    return isBrokenOff(this.#world) ? all.filter(({ kind }) => kind !== "natural") : all;
  }

  get #isFine(): boolean {
    return this.#proof.problems.length === 0;
  }

  #add(problems: readonly string[], when = ""): void {
    this.#proof.problems.push(...problems.map((one) => when + one));
  }

  /** A phase starts, everything ends, and the result is checked. */
  async #phase(phase: Phase | "again", ended: Verdict["ended"], begin: () => Promise<unknown>): Promise<void> {
    const { id, name } = this.#run;
    const watched = this.#stage.watch(
      [name, id],
      this.#faults.filter((one) => one.phase === phase),
    );
    try {
      await begin();
      this.#add(await this.#converge(ended, watched), `${phase}: `);
    } finally {
      watched.end();
    }
    if (this.#isFine && this.#world.late) this.#add(await this.#late(ended), `${phase}: `);
    this.#proof.struck += watched.struck();
    if (phase !== "again") this.#proof.crossed[phase] ??= watched.counts;
    if (this.#isFine && this.#isClosed) this.#add(await this.#closed(), "closed: ");
    else if (this.#isFine && ended === "complete") this.#add(await this.#told(phase), `${phase}: `);
    if (this.#isFine && this.#last) this.#add(await this.#judged(ended, this.#last), `${phase}: `);
    if (ended === "terminated" && this.#last) this.#before.push(this.#last.expected);
    if (!this.#isFine) this.#add([await evidenceOf(this.#stage, this.#run)]);
  }

  /** Sent messages are delivered again: no change. */
  async #late(ended: Verdict["ended"]): Promise<string[]> {
    const before = await this.#done();
    await this.#outside.comeAgain();
    const problems = await this.#converge(ended);
    const more = (await this.#done()).slice(before.length).map(({ subject }) => subject);
    return more.length > 0
      ? [...problems, `the effects ${more.join(", ")} happened again for a message that was delivered again`]
      : problems;
  }

  async #judged(ended: Verdict["ended"], last: { expected: Expectation; trace: Trace }): Promise<string[]> {
    const at = (await this.#done()).length;
    await pause(QUIET_MS);
    if (this.#world.stranger) await this.#outside.meddler.meddle();
    const late = (await this.#done()).length - at;
    const letters = this.#outside.senders.letters();
    await this.#outside.senders.lettersCame();
    const problems = [
      ...(await judge(this.#stage, this.#run, { ...last, ended, before: this.#before, cut: await this.#isCut(), letters })),
      ...(await wrongInJournal(this.#stage, this.#run)),
      ...(await wrongInAudit(this.#stage, this.#run, this.#outside.requests.counts)),
      ...(await this.#outside.people.wrongWithSkipped()),
      ...(await this.#outside.senders.strangers()),
      ...this.#outside.people.problems,
      ...this.#outside.operators.problems,
      ...this.#outside.meddler.problems.splice(0),
    ];
    return late > 0 ? [`invented: ${late} effects happened after the end`, ...problems] : problems;
  }

  /** I16: a closed run remains closed, and does nothing, for any request. */
  async #closed(): Promise<string[]> {
    const before = (await this.#done()).length;
    const problems = await this.#stops.judgeClosed(await this.#known());
    await pause(QUIET_MS);
    const more = (await this.#done()).length - before;
    if (more > 0) problems.push(`invented: ${more} effects happened`);
    return [...problems, ...(await wrongInAudit(this.#stage, this.#run, this.#outside.requests.counts))];
  }

  /** An undo in the middle of the run; a cancel has the interrupted effect, unless the platform has lost it. */
  async #isCut(): Promise<boolean> {
    const { orders } = this.#world;
    if (isBrokenOff(this.#world) && orders.some(({ verb }) => verb === "cancel")) return true;
    return (await undosOf(this.#stage, this.#run.id)) > this.#undos;
  }

  async #known(): Promise<Known> {
    const letters = this.#outside.senders.letters();
    return { before: this.#before, letters, cut: await this.#isCut(), skips: (this.#world.skips ?? 0) > 0 };
  }

  /** A complete run's report of its branch; a restarted run has the same report as before. */
  async #told(phase: Phase | "again"): Promise<string[]> {
    const { status, output } = await platformOf(this.#stage, this.#run.id);
    const trace = output as Trace | null | undefined;
    // A complete run remains complete when a later replay throws, and has no output then.
    const silent = [`the run is complete, but its last replay has not reported its branch: the platform's status is ${status}`];
    if (!trace) return throwsByRun(this.#run.program, this.#world) ? [] : silent;
    // In a later replay the code may end before it gets an operator's output for a loser again.
    for (const [at, did] of Object.entries(trace.did)) if (did === BY_HAND) this.#byHand[at] = did;
    Object.assign(trace.did, this.#byHand);
    const expected = expectationOf(this.#run.program, trace, this.#stage.disturbedUntil() > this.#begunAt);
    const before = this.#last?.expected.story.join("; ");
    this.#last = { expected, trace };
    const story = expected.story.join("; ");
    const problems = trace.note === noteLength(this.#world) ? [] : [`the run's note has the wrong length ${trace.note}`];
    return phase === "restart" && story !== before
      ? [...problems, `a restart followed another branch: first ${before}; then ${story}`]
      : problems;
  }

  /** Simulates the environment until the run has ended. Returns the problems; empty when its row and the platform are as expected. */
  async #converge(wanted: Verdict["ended"], watched?: Watch): Promise<string[]> {
    const { id } = this.#run;
    const begunAt = Date.now();
    let [retries, looks] = [0, 0];
    let late: string | undefined;
    for (;;) {
      const row = await rowOf(this.#stage, id);
      const isClosed = row?.status === "skipped";
      const isThere = (isClosed || row?.status === wanted) && this.#hasClicked;
      const open = isThere
        ? await openOf(this.#stage, this.#run, isClosed ? "terminated" : wanted)
        : [`the row's status is ${row?.status}`];
      const takenMs = Date.now() - Math.max(begunAt, this.#stage.disturbedUntil(), watched?.struckUntil() ?? 0);
      const seenMs = this.#times.mostMs > takenMs ? Math.min(takenMs, looks++ * this.#times.lookMs) : takenMs;
      this.#proof.slowestMs = Math.max(this.#proof.slowestMs, takenMs);
      this.#isClosed = isClosed;
      const lateMs = seenMs - this.#times.patienceMs;
      if (open.length === 0) return late === undefined ? [] : [`${late}${IT_ENDED} ${Math.round(lateMs / 1000)} s later`];
      if (lateMs > 0)
        late ??= `stuck: the run has not ended: ${open.join(", ")}${this.#times.lateMs > 0 ? await evidenceOf(this.#stage, this.#run) : ""}`;
      if (late !== undefined && lateMs > this.#times.lateMs) return [late];
      if (row) await this.#outside.look(row).catch(() => undefined);
      if (row?.status === "errored" || (row?.status === "terminated" && wanted === "complete")) {
        if (retries === RETRIES) return [`stuck: is ${row.status} after ${RETRIES} retries: ${row.error}`];
        const stopped = await this.#stops.judge(await this.#known(), this.#hasClicked);
        if (stopped.problems.length > 0) return stopped.problems;
        if (stopped.isUndone) this.#before.push(possibleOf(this.#run.program));
        if (stopped.isOver) {
          retries++;
          // A run that was complete once is not closed: its undo continues.
          await this.#outside.operators.goOn(this.#hasClicked && this.#last === undefined);
        }
      }
      await rounds(this.#stage);
      await pause(this.#times.lookMs);
    }
  }
}
