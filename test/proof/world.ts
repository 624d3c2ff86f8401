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

/** The external events of a case. */
export interface World {
  /** The number of further deliveries of the command's message. */
  copies: number;
  /** The same key is sent with another payload: over the API, in one request with the first and after it, and on the queue. */
  conflicts?: boolean | undefined;
  /** An invalid message is in the same batch. */
  malformed?: boolean | undefined;
  /** An event with a row that the database refuses is in the same batch. */
  poison?: boolean | undefined;
  /** Another tenant requests a run under the same key, publishes events of the same key and subject, and sends requests about all ids. */
  stranger?: boolean | undefined;
  /** The command's payload is stored by reference. */
  large?: boolean | undefined;
  /** Unknown outcomes are resolved by a repeat, whether the effect happened or not. */
  again?: boolean | undefined;
  /** A completed effect is first confirmed without its output. */
  mistakes?: boolean | undefined;
  /** All messages are delivered again after each end; with `skipped`, after an operator has skipped their dead letters. */
  late?: "late" | "skipped" | undefined;
  /**
   * Operators' requests at any moment; most are refused. `nth`: the recorded step to start from; `restart`: the platform restarts the run,
   * at any position.
   */
  clicks: { verb: "retry" | "retry from" | "undo" | "restart"; afterMs: number; nth: number }[];
  /** Operators' requests at moments of the run. */
  orders: Order[];
  /** The number of failed steps that are skipped, each with an operator's output, if that is accepted. */
  skips?: number | undefined;
  /** The run is closed after it has failed, or was stopped. */
  closes?: boolean | undefined;
  /** The run's awaited events are sent to it alone by operators, twice concurrently under one key. */
  direct?: boolean | undefined;
  /** The deadline of the run's end is one second after the start; passing it ends nothing. */
  overdue?: boolean | undefined;
  /** At the end the run is aged and removed; then all messages are delivered again, and the client repeats its request. */
  old?: boolean | undefined;
  /** The number of restarts of the complete run from its beginning. */
  restarts: number;
  /** When the platform restarts the run from its beginning in the middle: running effects of the previous replay continue during that. */
  breaks?: number[] | undefined;
  /** True if it is undone at the end, and done again. */
  ends: "stays" | "undone" | "undone and retried";
}

/**
 * The code or a step throws in one run and not in another: a replay of the complete run by the platform may get another run's number.
 */
export function throwsByRun(program: Program, { clicks, orders }: Pick<World, "clicks" | "orders">): boolean {
  const isRestarted = [...clicks, ...orders].some(({ verb }) => verb === "restart");
  return isRestarted && leavesOf(program).some(({ leaf }) => leaf.do === "throw" || ("fails" in leaf && leaf.fails === "later"));
}

/** Everything outside the engine: the upstream, the senders of messages, and the operators. They retry when they get no response. */
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

  /** Requests the run. Returns the problems of the responses. */
  async ask(): Promise<string[]> {
    const behaviours = [...this.#leaves].flatMap(([subject, leaf]) =>
      "upstream" in leaf && leaf.upstream ? [behaviour(subject, leaf.upstream)] : [],
    );
    await behave(this.#stage.upstreamUrl, behaviours);
    return this.senders.ask();
  }

  /** A poll by the run's senders and operators: they publish its awaited events, answer its questions, resolve its unknown outcomes. */
  async look({ waits, questions, doubts }: Row): Promise<void> {
    if (this.#world.stranger) await this.meddler.meddle();
    await Promise.all([waits > 0 && this.senders.speak(), questions > 0 && this.people.answer(), doubts > 0 && this.people.resolve()]);
  }

  /** All sent messages are delivered again. */
  async comeAgain(): Promise<void> {
    if (this.#world.late === undefined) return;
    if (this.#world.late === "skipped") await this.people.skip();
    await this.senders.late();
  }
}
