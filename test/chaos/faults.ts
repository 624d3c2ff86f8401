import { pause } from "../proof/stage.ts";
import type { Database } from "./database.ts";
import type { ChaosEngine } from "./engine.ts";
import type { Random } from "./random.ts";

/**
 * The faults of the engine's processes: its runtime is killed, or all its processes (`power`); its runtime stops for a while (`stop`);
 * another process locks the database (`lock`).
 */
export const FAULTS = ["kill", "power", "stop", "lock"] as const;
export type ProcessFault = (typeof FAULTS)[number];

/** The weight of each fault, where all are possible. */
const OFTEN: Record<ProcessFault, number> = { kill: 7, power: 1, stop: 1.5, lock: 1.5 };
/** The time between two faults: enough for some work, too short for most of it to finish. */
const LIFE_MS = { shortest: 100, longest: 2000 };
const STOP_MS = { shortest: 200, longest: 5000 };
const LOCK_MS = { shortest: 500, longest: 5000 };
/** The maximum number of repeats of a fault without an effect. */
const TRIES = 5;

/** The work that was running during a fault. */
export interface Work {
  /** The number of running programs. */
  underWay(): number;
  /** The number of requests to the engine so far. */
  asked(): number;
}

/** Injects faults one after another, from its seed. A fault without an effect does not count. */
export class Faults {
  readonly happened: Record<ProcessFault, number> = { kill: 0, power: 0, stop: 0, lock: 0 };
  /** Planned faults that did not happen. */
  readonly missed: ProcessFault[] = [];
  readonly #engine: ChaosEngine;
  readonly #database: Database;
  readonly #random: Random;
  readonly #work: Work;
  #until = Date.now();
  #underWay = false;

  constructor(engine: ChaosEngine, database: Database, random: Random, work: Work) {
    this.#engine = engine;
    this.#database = database;
    this.#random = random;
    this.#work = work;
  }

  get kills(): number {
    return this.happened.kill + this.happened.power;
  }

  get count(): number {
    return FAULTS.reduce((sum, kind) => sum + this.happened[kind], 0);
  }

  get said(): string {
    return FAULTS.map((kind) => `${this.happened[kind]} ${kind}`).join(", ");
  }

  /** The time at which the last fault ended. */
  until(): number {
    return this.#underWay ? Date.now() : this.#until;
  }

  /** The next fault: after some work, of one of these kinds. */
  async next(kinds: readonly ProcessFault[]): Promise<string> {
    const lifeMs = this.#random.between(LIFE_MS.shortest, LIFE_MS.longest);
    const kind = this.#draw(kinds);
    const ms = this.#lastsMs(kind);
    await pause(lifeMs);
    for (let tries = 1; tries <= TRIES; tries++) {
      this.#underWay = true;
      const happened = await this.#make(kind, ms).finally(() => {
        this.#underWay = false;
        this.#until = Date.now();
      });
      if (happened) {
        this.happened[kind]++;
        return `${kind} after ${lifeMs} ms: ${happened}`;
      }
      await pause(lifeMs);
    }
    this.missed.push(kind);
    return `${kind} did not happen`;
  }

  #draw(kinds: readonly ProcessFault[]): ProcessFault {
    const drawn = this.#random.next() * sum(kinds);
    return kinds.find((_, index) => drawn < sum(kinds.slice(0, index + 1))) ?? "kill";
  }

  #lastsMs(kind: ProcessFault): number {
    const { shortest, longest } = kind === "stop" ? STOP_MS : LOCK_MS;
    // Mostly short.
    return Math.round(shortest + (longest - shortest) * this.#random.next() ** 3);
  }

  /** Injects one fault, and returns its effect; undefined for none. */
  async #make(kind: ProcessFault, ms: number): Promise<string | undefined> {
    const [engine, work] = [this.#engine, this.#work];
    const underWay = work.underWay();
    const before = work.asked();
    if (kind === "stop" || kind === "lock") {
      const held = kind === "lock" ? await this.#database.lock(ms) : await engine.freeze(ms);
      const asked = work.asked() - before;
      return held > 0 && asked > 0 ? `for ${ms} ms, ${asked} requests meanwhile` : undefined;
    }
    const death = kind === "kill" ? "runtime" : "everything";
    const diedAt = Date.now();
    const died = await engine.kill(death);
    await engine.revive(death);
    return died > 0 && underWay > 0 ? `${died} processes, back after ${Date.now() - diedAt} ms` : undefined;
  }
}

const sum = (kinds: readonly ProcessFault[]): number => kinds.reduce((all, kind) => all + OFTEN[kind], 0);
