import type { EngineEnv } from "../../contract/bindings.ts";
import { messageOf } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import { within } from "../../contract/within.ts";
import { SPAN_MS } from "../../store/counts.ts";
import { type Counted, foldTallies, readCounted } from "./folding.ts";
import { type GaugedConsumer, readGauges } from "./gauges.ts";
import { assertSamples, type Sample } from "./sample.ts";

/** How long what was read is answered again: no number of scrapes reads the database more often. */
const FRESH_MS = 8000;
/** A reading that hangs holds up none of the next. */
const READ_WITHIN_MS = 30_000;
/** How often tallies are taken over. */
const FOLD_MS = SPAN_MS.minute;

/** How a deployment does, as its keeper saw it. */
export interface Seen extends Counted {
  readonly samples: readonly Sample[];
}

/** Gauges of an app: whatever it can read of itself, quickly and by index, or make of the engine's own of the same moment. */
export type AppGauges = (env: Cloudflare.Env, engine: readonly Sample[]) => Promise<readonly Sample[]> | readonly Sample[];

/** What the keeper knows of counts and gauges: read once a round, and answered to whoever asks meanwhile. */
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

  /** The last reading, however old; undefined before the first. */
  get last(): Seen | undefined {
    return this.#seen;
  }

  /** The last reading, or a new one where that is old. */
  seen(): Promise<Seen> {
    const { at } = this.#seen ?? { at: 0 };
    return this.#seen && Math.abs(Date.now() - at) < FRESH_MS ? Promise.resolve(this.#seen) : this.read();
  }

  /** Reads everything anew, and takes over tallies once a minute. One reading at a time. */
  read(): Promise<Seen> {
    this.#reading ??= within(this.#read(), READ_WITHIN_MS).finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** Reads what is there now, and takes over all tallies. */
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

  /** What an app cannot read now is no number, and takes nothing else with it. */
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
