import type { Row } from "./judge.ts";
import { Meddler } from "./meddler.ts";
import { Operators } from "./operators.ts";
import type { Order } from "./orders.ts";
import { People } from "./people.ts";
import { type Leaf, leavesOf, type Program } from "./program.ts";
import { Requests } from "./requests.ts";
import { Senders, STRANGER } from "./senders.ts";
import type { Stage, Subject } from "./stage.ts";
import { behave, behaviour } from "./upstream.ts";

/** What the outside does meanwhile. */
export interface World {
  /** How often the command's message is delivered again. */
  copies: number;
  /** The same key comes with another payload: over the door, in one request with the first and behind it, and on the queue. */
  conflicts?: boolean | undefined;
  /** A message that nobody can read comes in the same batch. */
  malformed?: boolean | undefined;
  /** An event comes in the same batch whose row the database refuses. */
  poison?: boolean | undefined;
  /** Another tenant asks for a run under the same key, says events of the same key and subject, and meddles with all that it can name. */
  stranger?: boolean | undefined;
  /** The command's payload is kept by reference. */
  large?: boolean | undefined;
  /** Doubts are resolved by doing it again, whatever happened. */
  again?: boolean | undefined;
  /** What happened is first confirmed without what it answered. */
  mistakes?: boolean | undefined;
  /** All messages come again after each end; with `skipped`, after a person has skipped their letters. */
  late?: "late" | "skipped" | undefined;
  /**
   * What operators ask for at any moment; mostly it is refused. `nth`: the recorded step to start from; `restart`: the platform begins the
   * run again, wherever it stands.
   */
  clicks: { verb: "retry" | "retry from" | "undo" | "restart"; afterMs: number; nth: number }[];
  /** What operators order at moments of the run. */
  orders: Order[];
  /** So many failed steps are skipped, each with an output from a person, where that is taken. */
  skips?: number | undefined;
  /** The run is closed where it has failed, or was stopped. */
  closes?: boolean | undefined;
  /** What the run waits for is sent to it alone by operators, twice at once under one key. */
  direct?: boolean | undefined;
  /** By when it is to have ended is over after a second: that ends nothing. */
  overdue?: boolean | undefined;
  /** In the end it is long ago, and removed; then all messages come again, and the client asks again. */
  old?: boolean | undefined;
  /** How often the run, once complete, is made again from its beginning. */
  restarts: number;
  /** When the platform makes the run anew from its beginning in the midst of it: what the pass before had under way goes on beside that. */
  breaks?: number[] | undefined;
  /** Whether it is undone in the end, and done again. */
  ends: "stays" | "undone" | "undone and retried";
}

/** The code throws in one run and not in another: a pass that the platform makes of the complete run may be told of another run. */
export function throwsByRun(program: Program, { clicks, orders }: Pick<World, "clicks" | "orders">): boolean {
  const isRestarted = [...clicks, ...orders].some(({ verb }) => verb === "restart");
  return isRestarted && leavesOf(program).some(({ leaf }) => leaf.do === "throw");
}

/** Everybody outside the engine: the upstream, those who send messages, and the people on call. They come back when they are not heard. */
export class Outside {
  readonly #stage: Stage;
  readonly #world: World;
  readonly #leaves: ReadonlyMap<string, Leaf>;
  readonly senders: Senders;
  readonly requests = new Requests();
  readonly people: People;
  readonly operators: Operators;
  readonly meddler: Meddler;

  constructor(stage: Stage, run: Subject, world: World, isCalm: boolean) {
    this.#stage = stage;
    this.#world = world;
    this.#leaves = new Map(leavesOf(run.program).map(({ at, leaf }) => [`${run.name}/${at}`, leaf]));
    this.senders = new Senders(stage, run, world, this.#leaves, this.requests);
    this.people = new People(stage, run, world, this.#leaves, this.requests);
    this.operators = new Operators(stage, run, { world, requests: this.requests, isCalm });
    this.meddler = new Meddler(stage, run, STRANGER);
    stage.cast(run, () => this.operators.runs);
    stage.cast({ name: `${run.name}~`, id: "", program: { do: "commit" } }, () => 1);
  }

  /** Asks for the run. Answers what is wrong with the answers. */
  async ask(): Promise<string[]> {
    const behaviours = [...this.#leaves].flatMap(([subject, leaf]) =>
      "upstream" in leaf && leaf.upstream ? [behaviour(subject, leaf.upstream)] : [],
    );
    await behave(this.#stage.upstreamUrl, behaviours);
    return this.senders.ask();
  }

  /** A look of those who wait for the run: they say what it waits for, answer its questions, resolve its doubts. */
  async look({ waits, questions, doubts }: Row): Promise<void> {
    if (this.#world.stranger) await this.meddler.meddle();
    await Promise.all([waits > 0 && this.senders.speak(), questions > 0 && this.people.answer(), doubts > 0 && this.people.resolve()]);
  }

  /** Everything that was sent comes again. */
  async comeAgain(): Promise<void> {
    if (this.#world.late === undefined) return;
    if (this.#world.late === "skipped") await this.people.skip();
    await this.senders.late();
  }
}
