import { join } from "node:path";
import { parseEnv } from "node:util";
import { isOfDisk, settingsIn } from "../disk.ts";
import { type Config, readSavedConfig } from "./config.ts";
import { Loader } from "./loader.ts";
import { type Mistake, mistakesIn } from "./mistakes.ts";
import { look, type Output, replace, SRC, writeBundle } from "./sources.ts";

/** What came of a look: what is wrong, and, unless that stops everything, what to run. */
export interface Verdict {
  readonly mistakes: readonly Mistake[];
  /** The Worker and its configuration as they were at this look; undefined when they cannot run. */
  readonly good: Good | undefined;
}

interface Good {
  readonly worker: readonly Output[];
  readonly config: Config;
}

/** The sources and the configuration, held against one another; and the last of them that could run, which the runtime is given. */
export class Wiring {
  readonly #folder: string;
  readonly #config: string;
  readonly #secrets: string;
  readonly #set: readonly string[];
  readonly #loader = new Loader(SRC);
  #used: Good | undefined;

  /** `folder` keeps what runs, below the checkout; `set` are the variables that the start itself sets. */
  constructor(options: { folder: string; config: string; secrets: string; set: readonly string[] }) {
    this.#folder = options.folder;
    this.#config = options.config;
    this.#secrets = options.secrets;
    this.#set = options.set;
  }

  /** What the runtime is given. It watches all of their folder. */
  get files(): { script: string; config: string } {
    return { script: join(this.#folder, "run", "worker.js"), config: join(this.#folder, "run", "wrangler.json") };
  }

  /** Looks at everything as it stands. What is wrong with it is answered; errors: those of the disk, of which the sources know nothing. */
  async look(): Promise<Verdict> {
    try {
      const config = await readSavedConfig(this.#config);
      const seen = await look(join(this.#folder, "look"), config, this.#loader);
      if ("mistake" in seen) return stopped(seen.mistake);
      const set = [...this.#set, ...Object.keys(parseEnv(settingsIn(this.#secrets)))];
      const mistakes = mistakesIn(config, seen.known, seen.sources, set);
      return { mistakes, good: mistakes.some(({ stops }) => stops) ? undefined : { worker: seen.worker, config } };
    } catch (error) {
      if (isOfDisk(error)) throw error;
      return stopped(error instanceof Error ? error.message : String(error));
    }
  }

  /** True when the configuration says something else than that of what runs. */
  isNew({ config }: Good): boolean {
    return this.#used === undefined || asRun(config) !== asRun(this.#used.config);
  }

  /** Makes what was found good what runs. */
  use(good: Good): void {
    this.#write(good);
    this.#used = good;
  }

  /** Writes what runs where it is gone. */
  restore(): void {
    if (this.#used) this.#write(this.#used);
  }

  #write({ worker, config }: Good): void {
    writeBundle(join(this.#folder, "run"), worker, this.#used?.worker);
    replace(this.files.config, asRun(config));
  }
}

/** As the runtime gets it, whose Worker is built by then. */
const asRun = ({ $schema: _, build: __, ...config }: Config) => JSON.stringify({ ...config, main: "worker.js" });

function stopped(says: string): Verdict {
  return { mistakes: [{ says, stops: true }], good: undefined };
}
