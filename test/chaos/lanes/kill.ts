import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startUpstream } from "../../upstream/start.ts";
import type { ChaosEngine } from "../engine.ts";
import { type Random, randomFrom } from "../random.ts";
import type { Answer } from "../worker.ts";
import { withEngine } from "../workshop.ts";
import { type Accepted, ALWAYS, type Body, type Entry, type Freed, type LaneName } from "./entries.ts";
import type { Verdict } from "./judge.ts";
import type { Stand } from "./lanes.ts";
import type { Far } from "./ledger.ts";
import { drawStreams, type Stream } from "./traffic.ts";

interface KillOptions {
  seed: number;
  messages: number;
  keys: number;
  kills: number;
  /** Keys of the lane in front of a workflow, and instances per key. */
  turns: { keys: number; each: number };
  /** One in this number of kills includes the wrangler process; 0 means none. */
  power: number;
  /** If true, all lanes are polled repeatedly; otherwise lanes wake after a kill by their alarm alone. */
  looks: boolean;
  say?: (line: string) => void;
}

/** The report of the ledger's process about the lanes, and the lanes' own status at the end. */
export interface Killed extends Verdict {
  seconds: number;
  /** Lanes that are not empty. */
  left: string[];
}

const REQUEST_MS = 5000;
const AGAIN_MS = 50;
/** The timeout without progress, after which a run is aborted. */
const PATIENCE_MS = 60_000;
/** The largest number of messages in one call for one key. */
const MOST_AT_ONCE = 20;
/** The largest number of messages that wait at once, as a fraction of all. */
const AHEAD = 0.4;

/** Sends messages to lanes while their process is killed, releases blocked lanes, and lets the ledger's process check the result. */
export async function killLanes(options: KillOptions): Promise<Killed> {
  const ledger = await startUpstream(undefined, join(import.meta.dirname, "ledger.ts"));
  try {
    return await withEngine(({ engine }) => new Run(engine, ledger.url, options).all(), { LEDGER_URL: ledger.url });
  } finally {
    ledger.stop();
  }
}

class Run {
  readonly #engine: ChaosEngine;
  readonly #ledger: string;
  readonly #options: KillOptions;
  readonly #random: Random;
  readonly #streams: Stream[];
  /** The number of messages. */
  readonly #total: number;
  readonly #turns: { key: string; n: number }[];
  #far: Far = { over: 0, lives: 0 };
  #sent = 0;
  /** True once all messages are done, or the run has been aborted. */
  #ended = false;

  constructor(engine: ChaosEngine, ledger: string, options: KillOptions) {
    this.#engine = engine;
    this.#ledger = ledger;
    this.#options = options;
    this.#random = randomFrom(options.seed);
    this.#streams = drawStreams(this.#random, options);
    this.#total = this.#streams.reduce((sum, { bodies }) => sum + bodies.length, 0);
    const { keys, each } = options.turns;
    this.#turns = Array.from({ length: keys * each }, (_, at) => ({ key: `turn-${at % keys}`, n: Math.floor(at / keys) + 1 }));
  }

  async all(): Promise<Killed> {
    const began = Date.now();
    await this.#askForTurns();
    await Promise.all([this.#watch(), this.#sendAll(), this.#free(), this.#kill()]);
    const seconds = Math.round((Date.now() - began) / 100) / 10;
    const left = await this.#left();
    const verdict = (await (await fetch(`${this.#ledger}/verdict`)).json()) as Verdict;
    return { ...verdict, seconds, left };
  }

  /** Runs before the first kill: a message that the keeper resends to a lane comes after messages sent meanwhile. */
  async #askForTurns(): Promise<void> {
    if (this.#turns.length === 0) return;
    await this.#tell(...this.#turns.map((turn): Entry => ({ is: "turn", at: "asked", ...turn })));
    if (!(await this.#ask("askForTurns", this.#turns))) throw new Error("The instances behind a lane were not accepted.");
  }

  async #watch(): Promise<void> {
    for (
      let movedAt = Date.now();
      this.#far.over < this.#total + this.#turns.length && Date.now() - movedAt < PATIENCE_MS;
      await sleep(AGAIN_MS)
    ) {
      const far = (await (await fetch(`${this.#ledger}/far`)).json()) as Far;
      if (far.over > this.#far.over) movedAt = Date.now();
      this.#far = far;
    }
    this.#ended = true;
  }

  async #until(right: () => boolean): Promise<boolean> {
    while (!right() && !this.#ended) await sleep(AGAIN_MS / 5);
    return !this.#ended;
  }

  /** Sends all messages, in the order of each key: an unanswered message is sent again before the next one. */
  async #sendAll(): Promise<void> {
    const left = this.#streams.map(({ lane, bodies }) => ({ lane, bodies: [...bodies], next: [] as Body[] }));
    while (await this.#until(() => this.#sent - this.#far.over < this.#total * AHEAD)) {
      const open = left.filter((one) => one.bodies.length > 0 || one.next.length > 0);
      if (open.length === 0) return;
      for (const one of open) if (one.next.length === 0) one.next = one.bodies.splice(0, this.#random.between(1, MOST_AT_ONCE));
      await Promise.all([...Map.groupBy(open, ({ lane }) => lane)].map(([lane, some]) => this.#send(lane, some)));
    }
  }

  async #send(lane: LaneName, some: { next: Body[] }[]): Promise<void> {
    const answers = await this.#ask<(Body & { id: string; duplicate: boolean })[]>(
      "sendToLanes",
      lane,
      some.flatMap(({ next }) => next),
    );
    if (!answers) return;
    await this.#tell(...answers.map(({ key, n, id, duplicate }): Accepted => ({ is: "accepted", lane, key, n, id, duplicate })));
    const kept = new Set(answers.map(({ key }) => key));
    for (const one of some.filter(({ next }) => kept.has(next[0]?.key ?? ""))) {
      // Some senders have lost the response.
      if (this.#random.chance(0.1)) continue;
      this.#sent += one.next.length;
      one.next = [];
    }
  }

  /** An operator who polls for blocked lanes, and decides. */
  async #free(): Promise<void> {
    for (; !this.#ended; await sleep(AGAIN_MS * 4)) {
      for (const [lane, streams] of this.#byLane()) {
        if (lane !== "holding" && !this.#options.looks) continue;
        for (const { key, head, heldFor } of await this.#look(lane, streams)) {
          if (heldFor === undefined || !head) continue;
          const how: Freed["how"] = heldFor.fails === ALWAYS && this.#random.chance(0.7) ? "skip" : this.#random.pick(["resume", "retry"]);
          await this.#tell({ is: "freed", lane, key, n: heldFor.n, how });
          await this.#ask("freeLane", lane, key, head.id, how);
        }
      }
    }
  }

  /** Kills processes while they handle messages, each after it has handled some. */
  async #kill(): Promise<void> {
    const { kills, power, say } = this.#options;
    for (let kill = 1; kill <= kills; kill++) {
      const at = (kill / (kills + 2)) * this.#total;
      if (!(await this.#until(() => this.#far.lives >= kill && this.#far.over >= at))) return;
      await sleep(this.#random.between(0, 100));
      const death = power > 0 && kill % power === 0 ? "everything" : "runtime";
      await this.#tell({ is: "kill", what: death });
      const died = await this.#engine.kill(death);
      await this.#engine.revive(death);
      say?.(`kill ${kill}, of ${died} processes: ${this.#far.over} of ${this.#total} messages over, ${this.#sent} sent`);
    }
  }

  /** Lanes that are not empty: the removal of a done message may need a moment. */
  async #left(): Promise<string[]> {
    for (const until = Date.now() + REQUEST_MS * 3; ; await sleep(AGAIN_MS)) {
      const stands = await Promise.all(this.#byLane().map(([lane, streams]) => this.#look(lane, streams)));
      const left = stands.flat().filter(({ depth, letters }) => depth > 0 || letters > 0);
      const isAll = stands.flat().length === this.#streams.length;
      if ((isAll && left.length === 0) || Date.now() > until) return left.map(({ lane, key, why }) => `${lane} ${key}: ${why}`);
    }
  }

  #byLane(): [LaneName, Stream[]][] {
    return [...Map.groupBy(this.#streams, ({ lane }) => lane)];
  }

  async #look(lane: LaneName, streams: readonly Stream[]): Promise<Stand[]> {
    return (
      (await this.#ask<Stand[]>(
        "lookAtLanes",
        lane,
        streams.map(({ key }) => key),
      )) ?? []
    );
  }

  async #tell(...entries: Entry[]): Promise<void> {
    await fetch(this.#ledger, { method: "POST", body: JSON.stringify(entries) });
  }

  /** Sends a request to the engine; undefined if it did not respond. */
  async #ask<T>(door: string, ...args: unknown[]): Promise<T | undefined> {
    const init = { method: "POST", body: JSON.stringify(args), signal: AbortSignal.timeout(REQUEST_MS) };
    const answer = await fetch(`${this.#engine.url}/door/${door}`, init)
      .then(async (response) => (response.ok ? ((await response.json()) as Answer) : undefined))
      .catch(() => undefined);
    if (answer && "gave" in answer) return answer.gave as T;
    await sleep(AGAIN_MS);
    return undefined;
  }
}
