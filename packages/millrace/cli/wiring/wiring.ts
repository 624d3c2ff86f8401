import { join, resolve } from "node:path";
import { parseEnv } from "node:util";
import { shown } from "../local/wrangler.ts";
import { type Project, sourcesOf } from "../project.ts";
import { isOfDisk, settingsIn } from "../terminal.ts";
import { type Config, configOf, readSavedConfig } from "./config.ts";
import { Loader } from "./loader.ts";
import { type Mistake, mistakesIn, unbound, unloaded } from "./mistakes.ts";
import { look, type Output, replace, writeBundle } from "./sources.ts";

/** The result of a check: the mistakes, and the bundle of the Worker if the Worker can run. */
export interface Verdict {
  readonly mistakes: readonly Mistake[];
  /** The checked Worker and its configuration. Undefined if the Worker cannot run. */
  readonly good: Good | undefined;
  readonly inputs: readonly string[];
}

interface Good {
  readonly worker: readonly Output[];
  readonly config: Config;
}

/** Checks the sources against the configuration, and writes the last valid bundle for the runtime. */
export class Wiring {
  readonly #folder: string;
  readonly #project: Project;
  readonly #secrets: string;
  readonly #set: readonly string[];
  readonly #loader: Loader;
  #used: Good | undefined;

  /**
   * `folder` is a folder in the project's root that contains the running bundle. `set` contains the variables that were set when the
   * command started.
   */
  constructor(options: { folder: string; project: Project; secrets: string; set: readonly string[] }) {
    this.#folder = options.folder;
    this.#project = options.project;
    this.#loader = new Loader(sourcesOf(options.project));
    this.#secrets = options.secrets;
    this.#set = options.set;
  }

  /** The files for the runtime. The runtime watches the folder of these files. */
  get files(): { script: string; config: string } {
    return { script: join(this.#folder, "run", "worker.js"), config: join(this.#folder, "run", "wrangler.json") };
  }

  /** Reads the sources and the configuration, and returns the mistakes of the wiring. Throws only disk errors. */
  async look(): Promise<Verdict> {
    try {
      const project = this.#project;
      const config = configOf(await readSavedConfig(project.config), project.env) ?? {};
      const seen = await look({ project, folder: join(this.#folder, "look"), loader: this.#loader }, config);
      if ("mistake" in seen) return stopped(seen.mistake, seen.inputs);
      const secrets = Object.keys(parseEnv(settingsIn(this.#secrets)));
      const set = [...this.#set, ...secrets];
      const mistakes = [
        ...(seen.known.consumers.length > 0 ? unbound(config, set) : []),
        ...unloaded(config, secrets, shown(this.#secrets)),
        ...mistakesIn(config, seen.known, seen.sources, set),
      ];
      return { mistakes, inputs: seen.inputs, good: mistakes.some(({ stops }) => stops) ? undefined : { worker: seen.worker, config } };
    } catch (error) {
      if (isOfDisk(error)) throw error;
      return stopped(error instanceof Error ? error.message : String(error));
    }
  }

  isNew({ config }: Good): boolean {
    return this.#used === undefined || this.#asRun(config) !== this.#asRun(this.#used.config);
  }

  use(good: Good): void {
    this.#write(good);
    this.#used = good;
  }

  restore(): void {
    if (this.#used) this.#write(this.#used);
  }

  #write({ worker, config }: Good): void {
    writeBundle(join(this.#folder, "run"), worker, this.#used?.worker);
    replace(this.files.config, this.#asRun(config));
  }

  /**
   * The configuration for the bundle, with changed paths, because the bundle and the sources are in different folders. If the assets have
   * no folder, another tool such as Vite builds the assets.
   */
  #asRun({ $schema: _, build: __, alias: ___, base_dir: ____, assets, ...config }: Config): string {
    const directory = assets?.directory && resolve(this.#project.root, assets.directory);
    return JSON.stringify({ ...config, main: "worker.js", ...(directory && { assets: { ...assets, directory } }) });
  }
}

function stopped(says: string, inputs: readonly string[] = []): Verdict {
  return { mistakes: [{ says, stops: true }], good: undefined, inputs };
}
