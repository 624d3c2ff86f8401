// The expected result of a program, computed without the engine: this file must not import from `src/`.
import { BY_HAND } from "./orders.ts";
import { answersOf, decisionsOf, mayFail } from "./outcomes.ts";
import { type Act, type Leaf, leavesOf, type Own, type Part, type Program, partsOf, ROOT, type Trace } from "./program.ts";

/** An effect of a program, by its place. */
export interface Effect {
  at: string;
  class: Act["do"] | "commit";
  emits: boolean;
  stays: boolean;
}

/** The permitted effects: exactly this effect, or this effect or none. An effect without an entry has not happened. */
export interface Expected extends Effect {
  least: 0 | 1;
  /** An operator has entered the outcome: its attempts' effects remain, and it is reported as if it had happened. */
  skipped?: boolean;
}

/** The required effects of a run. */
export interface Expectation {
  effects: Map<string, Expected>;
  /** Effects with a certain order. */
  order: [earlier: string, later: string][];
  /** The code's decisions, and its steps' outputs, on the path that the code certainly took: a later replay repeats them. */
  story: string[];
  /** Branches that the code of this program never takes. */
  problems: string[];
}

/** The code's progress in a part: an end; or `open` if that is unknown, because the part was not awaited. */
type End = "done" | "failed" | "left" | "open";

/** All possible effects of a program, or of a part: those of its steps, and the commits after its decisions. */
export function effectsOf(program: Program, at = ROOT): Effect[] {
  if (isEffect(program)) return [effectOf(program, at)];
  const decided = decisionsOf(program, at).map((one) => decision(at, one));
  const commits = program.do === "told" ? [said(at), ...decided] : decided;
  return [
    ...commits.map((place) => effectOf({ do: "commit" }, place)),
    ...partsOf(program, at).flatMap((part) => effectsOf(part.program, part.at)),
  ];
}

/** The required effects when the code ended by its recorded branch. `dies`: its process may have died in the middle of an attempt. */
export function expectationOf(program: Program, trace: Trace, dies = false): Expectation {
  return new Model(trace, dies).of(program);
}

class Model {
  readonly #trace: Trace;
  readonly #failed: ReadonlySet<string>;
  readonly #dies: boolean;
  #untold = 0;
  readonly #expected: Expectation = { effects: new Map(), order: [], story: [], problems: [] };

  constructor(trace: Trace, dies: boolean) {
    this.#trace = trace;
    this.#dies = dies;
    this.#failed = new Set(trace.failed);
  }

  of(program: Program): Expectation {
    const ends = this.#ends(program, ROOT);
    const { left } = this.#trace;
    const isWhole = left === undefined ? ends.has("done") && ends.size === 1 : ends.has("left");
    if (!isWhole) this.#problem(`the code has ended, but the parts of its program report ${[...ends].join(", ")}`);
    this.#must(program, ROOT);
    this.#eachItsOwn(program);
    return this.#expected;
  }

  /** W24: an event is consumed by one wait of a run. */
  #eachItsOwn(program: Program): void {
    const shared = leavesOf(program).filter(({ leaf }) => leaf.do === "wait" && leaf.shared);
    const heard = shared.map(({ at }) => this.#trace.decided[at]).filter((one) => String(one).startsWith("heard"));
    if (new Set(heard).size < heard.length) this.#problem(`duplicate: two waits consumed the same event: ${heard.join(", ")}`);
  }

  /** The end of a part, from the trace. */
  #ends(program: Program, at: string): ReadonlySet<End> {
    const parts = partsOf(program, at);
    const ends = parts.map((part) => this.#ends(part.program, part.at));
    const decided = this.#trace.decided[at];
    switch (program.do) {
      case "seq":
      case "loop":
        return ends.find((one) => !isDone(one)) ?? DONE;
      case "all":
      case "map":
        return ends.every(isDone) ? DONE : merged(ends.filter((one) => !isDone(one)));
      case "race":
        return decided === undefined ? merged(ends.filter((one) => !isDone(one))) : this.#endsOfDecision(at);
      case "try": {
        const [body = OPEN, then = OPEN] = ends;
        if (decided === "caught") return program.bare || isDone(this.#endsOfDecision(at)) ? then : this.#endsOfDecision(at);
        // A failure that was not caught belongs to a part that no other part awaited.
        return body.has("failed") ? merged([new Set([...body].filter((one) => one !== "failed"))]) : body;
      }
      case "beside":
        return ends[1] ?? OPEN;
      case "wait":
      case "ask":
      case "told":
        return this.#endsOfDecision(at);
      case "return":
        return isDone(this.#endsOfDecision(at)) ? LEFT : this.#endsOfDecision(at);
      default:
        return this.#endOf(at);
    }
  }

  /** The commit that follows a decision. */
  #endsOfDecision(at: string): ReadonlySet<End> {
    const decided = this.#trace.decided[at];
    return decided === undefined ? OPEN : this.#endOf(decision(at, decided));
  }

  #endOf(at: string): ReadonlySet<End> {
    if (this.#trace.did[at] !== undefined) return DONE;
    return this.#failed.has(at) ? FAILED : OPEN;
  }

  /** A part that the code certainly executed. Returns its certain effects. */
  #must(program: Program, at: string): string[] {
    const parts = partsOf(program, at);
    const decided = this.#trace.decided[at];
    switch (program.do) {
      case "seq":
      case "loop": {
        const had: string[] = [];
        for (const part of parts) {
          had.push(...this.#behind(had, this.#must(part.program, part.at)));
          if (!isDone(this.#ends(part.program, part.at))) break;
        }
        return had;
      }
      case "all":
      case "map":
        return isDone(this.#ends(program, at)) ? parts.flatMap((part) => this.#must(part.program, part.at)) : this.#cut(parts);
      case "race": {
        if (decided === undefined) return this.#cut(parts);
        const won = parts.flatMap((part, index) =>
          index === decided ? this.#must(part.program, part.at) : this.#may(part.program, part.at),
        );
        return [...won, ...this.#behind(won, this.#decided(at))];
      }
      case "try": {
        const [body, then] = parts as [(typeof parts)[0], (typeof parts)[0]];
        const had = this.#must(body.program, body.at);
        if (decided !== "caught") return had;
        const caught = program.bare ? [] : this.#behind(had, this.#decided(at));
        return [...had, ...caught, ...this.#behind([...had, ...caught], this.#must(then.program, then.at))];
      }
      case "beside": {
        const [body, then] = parts as [(typeof parts)[0], (typeof parts)[0]];
        this.#may(body.program, body.at);
        return this.#must(then.program, then.at);
      }
      default:
        return this.#step(program, at);
    }
  }

  /** Parallel parts of which one has failed or returned: the progress of the others depends on time, and a later replay may differ. */
  #cut(parts: Part[]): string[] {
    this.#untold++;
    const had = parts.map(({ program, at }) => (isOpen(this.#ends(program, at)) ? this.#may(program, at) : this.#must(program, at)));
    this.#untold--;
    // The part that interrupted the others precedes the next part; the order of the others is unknown.
    const cutting = parts.flatMap(({ program, at }, index) =>
      isDone(this.#ends(program, at)) || isOpen(this.#ends(program, at)) ? [] : [index],
    );
    return cutting.length === 1 ? cutting.flatMap((index) => had[index] ?? []) : [];
  }

  #step(leaf: Leaf, at: string): string[] {
    const decided = this.#trace.decided[at];
    if (leaf.do === "wait" || leaf.do === "ask" || leaf.do === "told" || leaf.do === "return") {
      if (decided === undefined) return this.#problem(`the wait or question ${at} has no answer`);
      if (!answersOf(leaf, at).includes(String(decided))) this.#problem(`the wait or question ${at} cannot have the answer "${decided}"`);
      const told = leaf.do === "told" ? [this.#expect(effectOf({ do: "commit" }, said(at)), 1)] : [];
      return [...told, ...this.#decided(at)];
    }
    const did = this.#trace.did[at];
    if (did === BY_HAND) return this.#skipped(leaf, at);
    if (did !== undefined) {
      if ((leaf.do === "commit" || leaf.do === "read") && did !== at) this.#problem(`${at} answered "${did}"`);
      this.#tell(`${at} = ${did}`);
      return isEffect(leaf) ? [this.#expect(effectOf(leaf, at), 1)] : [];
    }
    if (!this.#failed.has(at)) return this.#problem(`the code continued without the outcome of ${at}`);
    if (!mayFail(leaf, this.#dies)) this.#problem(`${at} failed, and cannot`);
    this.#tell(`${at} failed`);
    return [];
  }

  /** An operator has entered the output: a commit writes no row, and a possible effect is not undone. */
  #skipped(leaf: Leaf, at: string): string[] {
    this.#tell(`${at} = ${BY_HAND}`);
    if (isEffect(leaf)) this.#byHand(effectOf(leaf, at));
    return [];
  }

  #byHand(effect: Effect): void {
    if (effect.class !== "commit") this.#expected.effects.set(effect.at, { ...effect, stays: true, least: 0, skipped: true });
  }

  #decided(at: string): string[] {
    const decided = this.#trace.decided[at] ?? "";
    this.#tell(`${at}: ${decided}`);
    return this.#step({ do: "commit" }, decision(at, decided));
  }

  /** A part that the code did not await: each effect that it started has its outcome, once. */
  #may(program: Program, at: string): string[] {
    for (const one of effectsOf(program, at)) {
      const did = this.#trace.did[one.at];
      if (did === BY_HAND) this.#byHand(one);
      else this.#expect(one, did === undefined ? 0 : 1);
    }
    return [];
  }

  #expect(effect: Effect, least: 0 | 1): string {
    this.#expected.effects.set(effect.at, { ...effect, least });
    return effect.at;
  }

  #behind(earlier: readonly string[], later: string[]): string[] {
    this.#expected.order.push(...earlier.flatMap((one) => later.map((other): [string, string] => [one, other])));
    return later;
  }

  #tell(what: string): void {
    if (this.#untold === 0) this.#expected.story.push(what);
  }

  #problem(what: string): [] {
    this.#expected.problems.push(what);
    return [];
  }
}

const DONE: ReadonlySet<End> = new Set(["done"]);
const FAILED: ReadonlySet<End> = new Set(["failed"]);
const LEFT: ReadonlySet<End> = new Set(["left"]);
const OPEN: ReadonlySet<End> = new Set(["open"]);

const isDone = (ends: ReadonlySet<End>): boolean => ends.has("done");
const isOpen = (ends: ReadonlySet<End>): boolean => ends.has("open");

/** The ends of parallel parts that the code may have received; `open` when it has received none. */
function merged(ends: readonly ReadonlySet<End>[]): ReadonlySet<End> {
  const heard = ends.flatMap((one) => [...one]).filter((one) => one !== "open");
  return heard.length > 0 ? new Set(heard) : OPEN;
}

function isEffect(program: Program): program is Act | Own {
  return ["commit", "keyed", "natural", "lookup", "once"].includes(program.do);
}

function effectOf(leaf: Act | Own, at: string): Effect {
  return { at, class: leaf.do as Effect["class"], emits: leaf.emits === true, stays: leaf.stays === true };
}

const said = (at: string): string => `${at}:said`;
const decision = (at: string, decided: string | number): string => `${at}:${decided}`;
