import { type Commit, errors, notRetryable, type Statement, type Steps, sql, upstreamRefused } from "millrace";
import type { StepMode } from "../../packages/millrace/src/contract/step-names.ts";
import type { LabCall } from "../probe/lab.ts";
import { ProbeDone, ProbeSignal } from "../probe/messages.ts";
import { noteBegun } from "./begun.ts";
import { definitionOf, idIn, padded, QUICK } from "./effects.ts";
import { BY_HAND } from "./orders.ts";
import {
  type Act,
  type Ask,
  type Inline,
  itemsOf,
  type Leaf,
  type Own,
  type Program,
  partsOf,
  ROOT,
  SHARED,
  type Told,
  type Trace,
  type Wait,
} from "./program.ts";
import { oneModeOf } from "./steps-of-all.ts";

/** The duration of a brief wait, and of an unanswered question. */
const BRIEF_MS = 1500;
const SLEEP_MS = 200;

/** Thrown by an early return: no step has failed. */
class Left extends Error {
  constructor(readonly at: string) {
    super("The code returns early.");
  }
}

/** The code's position: the names of its steps contain the part; their keys contain the item. */
interface Place {
  on: Steps;
  at: string;
  name: string;
  key: string;
}

/** The code of a run that executes a program. `runs`: the number of runs that operators have started so far. */
export function codeFor(program: Program, runs: () => number): (call: LabCall) => Promise<Trace> {
  const tried = new Set<string>();
  let passes = 0;
  const steps = oneModeOf(program);
  return (call) => new Pass(call, { tried, nth: runs(), before: passes++, steps }).run(program);
}

/** A replay's state in addition to the call. */
interface Known {
  /** The expected failures so far. */
  tried: Set<string>;
  /** The number of the instance's run, from 1. */
  nth: number;
  /** The number of this process's earlier replays. */
  before: number;
  /** The kind of all the program's steps, if they have the same kind. */
  steps: ReturnType<typeof oneModeOf>;
}

class Pass {
  readonly #trace: Trace = { note: 0, did: {}, failed: [], decided: {} };
  readonly #call: LabCall;
  readonly #known: Known;

  constructor(call: LabCall, known: Known) {
    this.#call = call;
    this.#known = known;
    this.#trace.note = call.payload.note.length;
  }

  async run(program: Program): Promise<Trace> {
    try {
      await this.#go(program, { on: this.#call.step, at: ROOT, name: ROOT, key: "" });
    } catch (error) {
      if (!(error instanceof Left)) throw error;
      this.#trace.left = error.at;
    }
    // Work that continues after the end of the code is not recorded.
    return structuredClone(this.#trace);
  }

  async #go(program: Program, place: Place): Promise<void> {
    const { on, at, name, key } = place;
    const parts = partsOf(program, at).map((part, index) => ({ ...part, place: { ...place, at: part.at, name: `${name}.${index}` } }));
    switch (program.do) {
      case "seq":
        for (const part of parts) await this.#go(part.program, part.place);
        return;
      case "all":
        await Promise.all(parts.map((part) => this.#go(part.program, part.place)));
        return;
      case "race": {
        const winner = await Promise.race(parts.map((part, index) => this.#go(part.program, part.place).then(() => index)));
        return this.#decide(place, winner);
      }
      case "map":
        await on.map(itemsOf(program.items), { key: (item) => key + item, concurrency: 2 }, (item, each) =>
          this.#go(program.part, { on: each, at: `${at}.${item}`, name: `${name}.m`, key: "" }),
        );
        return;
      case "loop":
        for (const item of itemsOf(program.items))
          await this.#go(program.part, { on, at: `${at}.${item}`, name: `${name}.l`, key: key + item });
        return;
      case "try": {
        const [part, then] = parts as [(typeof parts)[0], (typeof parts)[0]];
        try {
          return await this.#go(part.program, part.place);
        } catch (error) {
          if (error instanceof Left) throw error;
        }
        if (program.bare) this.#trace.decided[at] = "caught";
        else await this.#decide(place, "caught");
        return this.#go(then.program, then.place);
      }
      case "beside": {
        const [part, then] = parts as [(typeof parts)[0], (typeof parts)[0]];
        this.#go(part.program, part.place).catch(() => undefined);
        return this.#go(then.program, then.place);
      }
      default:
        return this.#take(program, place);
    }
  }

  /** A decision is final once a commit follows it. */
  async #decide(place: Place, decision: string | number): Promise<void> {
    this.#trace.decided[place.at] = decision;
    await this.#commit(
      { do: "commit", inline: this.#inlineAt(place.at) },
      { ...place, at: `${place.at}:${decision}`, name: `${place.name} ${decision}` },
    );
  }

  async #take(leaf: Leaf, place: Place): Promise<void> {
    // Code also does other work between two steps, which takes a different time in each replay.
    if (Math.random() < 0.2) await scheduler.wait(Math.random() * 30);
    switch (leaf.do) {
      case "commit":
        return this.#commit(leaf, place);
      case "read":
        return this.#read(leaf, place);
      case "sleep":
        return this.#mark(place, () => place.on.sleep(`${place.name} sleep` as never, SLEEP_MS, { key: place.key }).then(() => "slept"));
      case "throw":
        if (this.#known.nth === leaf.run) return Promise.reject(new Error("A setting is missing."));
        this.#trace.did[place.at] = place.at;
        return Promise.resolve();
      case "wait":
        return this.#wait(leaf, place);
      case "ask":
        return this.#ask(leaf, place);
      case "told":
        return this.#told(leaf, place);
      case "return":
        return this.#decide(place, "left").then(() => Promise.reject(new Left(place.at)));
      default:
        return this.#effect(leaf, place);
    }
  }

  /** Runs a step, and returns its outcome. */
  async #mark(place: Place, step: () => Promise<string>): Promise<void> {
    try {
      this.#trace.did[place.at] = await step();
    } catch (error) {
      this.#trace.failed.push(place.at);
      throw error;
    }
  }

  #subject(at: string): string {
    return `${this.#call.payload.name}/${at}`;
  }

  /** A separate row for each write: the same statement twice writes two rows. */
  #row(kind: "commit" | "back", at: string): Statement {
    return sql`INSERT INTO probe_rows (id, kind, name) VALUES (lower(hex(randomblob(16))), ${kind}, ${this.#subject(at)})`;
  }

  /** An event about a step: it starts a run, sends a command and goes to an object, each named by the step. */
  #says(leaf: Act | Own, at: string): Commit<never> {
    return leaf.emits ? { emit: [ProbeDone.from({ name: this.#subject(at), step: "done" })] } : {};
  }

  #mode({ inline }: Act | Own): { steps?: StepMode } {
    if (inline === undefined) return {};
    return { steps: inline === "inline" || this.#known.before % 2 === 0 ? "inline" : "platform" };
  }

  /** True if a commit outside the program is an inline step: by the kind of all steps of the program, or else by its place. */
  #inlineAt(at: string): Inline | undefined {
    const { steps } = this.#known;
    return steps ? steps.inline : ([undefined, "inline", "flips"][at.length % 3] as Inline | undefined);
  }

  #effect(leaf: Act, { on, at, name, key }: Place): Promise<void> {
    const doing = { subject: this.#subject(at), large: leaf.large === true };
    const record = () => this.#says(leaf, at);
    const undo = leaf.stays ? {} : { undo: () => ({ statements: [this.#row("back", at)], ...this.#says(leaf, `${at}/back`) }) };
    return this.#mark({ on, at, name, key }, async () =>
      idIn(await on.effect(`${name} ${leaf.do}` as never, definitionOf(leaf), doing, { key, record, ...undo, ...this.#mode(leaf) })),
    );
  }

  #commit(leaf: Own, place: Place, writes?: Commit<never>): Promise<void> {
    const { on, at, name, key } = place;
    const make = () => {
      noteBegun(this.#subject(at));
      this.#failAtFirst(leaf, at);
      return { statements: [this.#row("commit", at)], output: padded(at, leaf.large), ...this.#says(leaf, at), ...writes };
    };
    const undo = leaf.stays ? {} : { undo: () => ({ statements: [this.#row("back", at)], ...this.#says(leaf, `${at}/back`) }) };
    return this.#mark(place, async () =>
      idOf(at, await on.commit(`${name} commit` as never, make, { key, ...QUICK, ...undo, ...this.#mode(leaf) })),
    );
  }

  #read(leaf: Own, place: Place): Promise<void> {
    const { on, at, name, key } = place;
    const read = async () => {
      this.#failAtFirst(leaf, at);
      return padded(at, leaf.large);
    };
    return this.#mark(place, async () => idOf(at, await on.read(`${name} read` as never, read, { key, ...QUICK })));
  }

  #failAtFirst({ fails }: Own, at: string): void {
    if (fails === "later") {
      if (this.#known.nth === 2) throw notRetryable("The test program lets the second run fail.");
      return;
    }
    if (!fails || this.#known.tried.has(at)) return;
    this.#known.tried.add(at);
    throw fails === "once" ? upstreamRefused("Not this time.") : notRetryable("The step fails until an operator retries it.");
  }

  async #wait({ brief, comes, shared }: Wait, place: Place): Promise<void> {
    const { on, at, name, key } = place;
    const subject = this.#subject(shared ? SHARED : at);
    const hear = async (what: string, timeout: number | "1 hour") => {
      try {
        const { value } = await on.waitFor(`${name} ${what}` as never, ProbeSignal, { subject, timeout, key });
        return value;
      } catch (error) {
        if (errors.codeOf(error) === "wait_timeout") return "late";
        throw error;
      }
    };
    if (comes === "reminded" && (await hear("wait", BRIEF_MS)) !== "late") return this.#decide(place, "heard before anybody spoke");
    const heard =
      comes === "pair"
        ? await Promise.all([hear("wait", "1 hour"), hear("again", "1 hour")])
        : [await hear(comes === "reminded" ? "again" : "wait", brief ? BRIEF_MS : "1 hour")];
    await this.#decide(place, heard.includes("late") ? heard.join(", ") : `heard ${heard.sort().join(" and ")}`);
  }

  async #ask({ answer, otherwise }: Ask, place: Place): Promise<void> {
    const { on, at, name, key } = place;
    const request = {
      question: `May ${at} be?`,
      details: { at },
      timeout: answer === "never" ? BRIEF_MS : ("1 hour" as const),
      otherwise,
      key,
    };
    const { approved, by } = await on.approve(`${name} ask` as never, request);
    await this.#decide(place, `${approved ? "yes" : "no"} by ${by ?? "nobody"}`);
  }

  /** The run publishes an event to itself, by the route of every other event. */
  async #told({ said }: Told, place: Place): Promise<void> {
    const { on, at, name, key } = place;
    const subject = this.#subject(at);
    const say = () =>
      this.#commit(
        { do: "commit", inline: this.#inlineAt(at) },
        { ...place, at: `${at}:said`, name: `${name} said` },
        { emit: [ProbeSignal.from({ about: subject, value: at })] },
      );
    const hear = () => on.waitFor(`${name} hear` as never, ProbeSignal, { subject, timeout: "1 hour", key });
    if (said === "before") await say();
    const [{ value }] = await Promise.all([hear(), ...(said === "beside" ? [say()] : [])]);
    await this.#decide(place, `heard ${value}`);
  }
}

/** The output of a step of the test program: its place, or else an unexpected value. */
function idOf(at: string, output: string): string {
  if (output === BY_HAND) return BY_HAND;
  return output === padded(at, output.length > at.length) ? at : `the output of another step: ${output.slice(0, 60)}`;
}
