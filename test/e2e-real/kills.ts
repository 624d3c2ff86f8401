import { setTimeout as sleep } from "node:timers/promises";
import type { ChaosEngine, Death } from "../chaos/engine.ts";
import { MOMENTS, type Moment } from "./gate.ts";

export type Write = "page" | "post";

/** A kill: the write, the moment of the write, and the number of concurrent writes. */
export interface Kill {
  write: Write;
  moment: Moment;
  death: Death;
  underWay: number;
}

/** After this number of kills wrangler and all its processes are killed, not only the runtime. */
const EVERYTHING_EVERY = 3;
/** The duration of the engine's work between two kills. */
const BREATH_MS = 1500;

/**
 * Kills the engine during writes: at the moments of a page and of a post in turn, each at the next such write. One kill at a time; a write
 * during a kill is forwarded.
 */
export class Killer {
  readonly #engine: ChaosEngine;
  readonly #planned: { write: Write; moment: Moment }[];
  readonly #say: (line: string) => void;
  #underWay = 0;
  #busy = true;
  readonly made: Kill[] = [];
  readonly failed: Error[] = [];
  lastAt = Date.now();

  constructor(engine: ChaosEngine, count: number, writes: readonly Write[], say: (line: string) => void) {
    this.#engine = engine;
    const round = MOMENTS.flatMap((moment) => writes.map((write) => ({ write, moment })));
    this.#planned = Array.from({ length: count }, (_, index) => round[index % round.length] as (typeof round)[number]);
    this.#say = say;
  }

  /** Starts the kills. */
  begin(): void {
    this.#busy = false;
  }

  /** The number of remaining kills. */
  get left(): number {
    return this.#planned.length + (this.#busy ? 1 : 0);
  }

  /** Called for each write at each of its moments. */
  async passing(write: Write, moment: Moment): Promise<void> {
    if (moment === "during") this.#underWay++;
    const place = this.#busy ? -1 : this.#planned.findIndex((one) => one.write === write && one.moment === moment);
    if (place >= 0) {
      this.#planned.splice(place, 1);
      await this.#kill(write, moment);
    }
    if (moment === "answered") this.#underWay--;
  }

  async #kill(write: Write, moment: Moment): Promise<void> {
    this.#busy = true;
    const death: Death = this.made.length % EVERYTHING_EVERY === EVERYTHING_EVERY - 1 ? "everything" : "runtime";
    await this.#engine.kill(death);
    this.lastAt = Date.now();
    this.made.push({ write, moment, death, underWay: this.#underWay });
    this.#say(`kill -9 ${this.made.length}: ${death}, at a ${write} ${WORDS[moment]}; ${this.#underWay} writes were at the far end`);
    // The remote server continues meanwhile: a write in progress does not wait for the engine's restart.
    this.#revive(death).catch((error) => this.failed.push(error));
  }

  async #revive(death: Death): Promise<void> {
    await this.#engine.revive(death);
    await sleep(BREATH_MS);
    this.#busy = false;
  }
}

const WORDS: Record<Moment, string> = {
  before: "that had not reached the remote server",
  during: "that the remote server was processing",
  answered: "that was done, with its response not yet sent",
  passed: "with a response that had just arrived",
};
