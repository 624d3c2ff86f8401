import type { EngineEnv } from "../../contract/bindings.ts";
import { messageOf } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import { within } from "../../contract/within.ts";
import { SPAN_MS } from "../../store/counts.ts";
import { type Counted, foldTallies, readCounted } from "./folding.ts";
import { type GaugedConsumer, readGauges } from "./gauges.ts";
import { assertSamples, type Sample } from "./sample.ts";

/** How long a reading is reused, so that frequent scrapes do not add database reads. */
const FRESH_MS = 8000;
/** A reading that hangs must not block the next one. */
const READ_WITHIN_MS = 30_000;
/** The period of merging tallies. */
const FOLD_MS = SPAN_MS.minute;

/** A deployment's health at the keeper's last reading. */
export interface Seen extends Counted {
  readonly samples: readonly Sample[];
}

/** An app's own gauges, read quickly and by index, or computed from the engine's gauges of the same moment. */
export type AppGauges = (env: Cloudflare.Env, engine: readonly Sample[]) => Promise<readonly Sample[]> | readonly Sample[];

/** The keeper's counts and gauges: read once per round, and reused for requests in between. */
export class Vitals {
  #seen: Seen | undefined;
  #reading: Promise<Seen> | undefined;
  #foldedAt = 0;
  #lastOfApp: readonly Sample[] = [];

  constructor(
    readonly env: EngineEnv,
    readonly consumers: readonly GaugedConsumer[],
    readonly ofApp: AppGauges | undefined,
  ) {}

  /** The last reading of any age; undefined before the first. */
  get last(): Seen | undefined {
    return this.#seen;
  }

  /** The last reading, or a new one if that is too old. */
  seen(): Promise<Seen> {
    const { at } = this.#seen ?? { at: 0 };
    return this.#seen && Math.abs(Date.now() - at) < FRESH_MS ? Promise.resolve(this.#seen) : this.read();
  }

  /** Reads everything, and merges tallies once a minute. Only one reading is in progress at a time. */
  read(): Promise<Seen> {
    this.#reading ??= within(this.#read(), READ_WITHIN_MS).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** Reads everything now, and merges all tallies. */
  async readAtOnce(): Promise<Seen> {
    await this.#reading?.catch(() => undefined);
    this.#foldedAt = 0;
    return this.read();
  }

  async #read(): Promise<Seen> {
    const at = Date.now();
    if (Math.abs(at - this.#foldedAt) >= FOLD_MS) {
      this.#foldedAt = at;
      await foldTallies(this.env);
    }
    const counted = await readCounted(this.env, at);
    const own = await readGauges(this.env, this.consumers, counted);
    this.#seen = { ...counted, samples: [...own, ...(await this.#ofApp(own))] };
    return this.#seen;
  }

  /** An app gauge that fails becomes NaN and does not affect the others. */
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
