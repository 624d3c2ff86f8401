import type { EngineEnv } from "../../contract/bindings.ts";
import { inCell } from "../../contract/cells.ts";
import { messageOf } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import { within } from "../../contract/within.ts";
import { SPAN_MS } from "../../store/counts.ts";
import { type Counted, foldTallies, readCounted } from "./folding.ts";
import { type GaugedConsumer, readGauges, readVersions } from "./gauges.ts";
import { assertSamples, type Sample } from "./sample.ts";

/** How long a reading of the gauges is reused, in milliseconds. Because of the reuse, frequent scrapes do not add database reads. */
const FRESH_MS = 8000;
/** Time limit of a reading of the gauges, in milliseconds, so that a hanging reading does not block the next reading. */
const READ_WITHIN_MS = 30_000;
/** The interval at which tallies are merged and the versions of open instances are counted. */
const FOLD_MS = SPAN_MS.minute;

/** The counts and gauges of a deployment at the keeper's last reading. */
export interface Seen extends Counted {
  readonly samples: readonly Sample[];
}

/**
 * A function that returns an app's own gauges. The function should read quickly and by index, or compute from the engine's gauges in
 * `engine`.
 */
export type AppGauges = (env: Cloudflare.Env, engine: readonly Sample[]) => Promise<readonly Sample[]> | readonly Sample[];

/** The keeper's counts and gauges. The keeper reads both once per round, and reuses both for requests until the next round. */
export class Vitals {
  #seen: Seen | undefined;
  #reading: Promise<Seen> | undefined;
  #foldedAt = 0;
  #versions: readonly Sample[] = [];
  #lastOfApp: readonly Sample[] = [];

  constructor(
    readonly env: EngineEnv,
    readonly consumers: readonly GaugedConsumer[],
    readonly ofApp: AppGauges | undefined,
  ) {}

  /** The last reading of the gauges, of any age; undefined before the first reading. */
  get last(): Seen | undefined {
    return this.#seen;
  }

  /** The last reading of the gauges, or a new reading if the last reading is too old. */
  seen(): Promise<Seen> {
    const { at } = this.#seen ?? { at: 0 };
    return this.#seen && Math.abs(Date.now() - at) < FRESH_MS ? Promise.resolve(this.#seen) : this.read();
  }

  /** Reads all counters and gauges, and merges tallies once a minute. Only one reading is in progress at a time. */
  read(): Promise<Seen> {
    this.#reading ??= within(this.#read(), READ_WITHIN_MS).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** Reads all counters and gauges now, and merges all tallies. */
  async readAtOnce(): Promise<Seen> {
    await this.#reading?.catch(() => undefined);
    this.#foldedAt = 0;
    return this.read();
  }

  async #read(): Promise<Seen> {
    const at = Date.now();
    if (Math.abs(at - this.#foldedAt) >= FOLD_MS) {
      this.#foldedAt = at;
      // The first cell has the counts of all cells.
      if (this.env.CELL === undefined) await foldTallies(this.env);
      this.#versions = await readVersions(this.env);
    }
    const counted = await readCounted(inCell(this.env), at);
    const own = [...(await readGauges(this.env, this.consumers, counted)), ...this.#versions];
    this.#seen = { ...counted, samples: [...own, ...(await this.#ofApp(own))] };
    return this.#seen;
  }

  /** Reads the app's gauges. A gauge that throws becomes NaN and does not affect other gauges. */
  async #ofApp(own: readonly Sample[]): Promise<readonly Sample[]> {
    try {
      const said = (await within(Promise.resolve(this.ofApp?.(this.env as unknown as Cloudflare.Env, own)))) ?? [];
      assertSamples(said);
      this.#lastOfApp = said;
      return said;
    } catch (error) {
      logLine("warn", { log: "metrics", part: "gauges", error: messageOf(error) });
      return this.#lastOfApp.map((sample) => ({ ...sample, value: Number.NaN }));
    }
  }
}
