import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import { errorWords, isOfDisk } from "../disk.ts";
import { type Project, sourcesOf } from "../project.ts";
import { paint, say } from "../terminal.ts";
import { Changes } from "../wiring/changes.ts";
import { type Verdict, Wiring } from "../wiring/wiring.ts";
import { type Engine, type EngineOptions, NotStarted, startEngine } from "./engine-process.ts";
import { isAlive } from "./processes.ts";
import { untilSeen, Watchdog } from "./watchdog.ts";
import { followLog } from "./worker-log.ts";
import { isLoadingError, lastError, shown } from "./wrangler.ts";

/** A first start that dies is tried again: wrangler ends when it meets its runtime dying. What has run before is tried until it runs. */
const FIRST_TRIES = 3;
const PAUSE_MS = { each: 500, most: 5000 };
/** A machine that was too slow for one start is given more time for the next: a minute more at each try. */
const START_MS = { each: 60_000, most: 300_000 };

/**
 * An engine that follows the sources. Each save is looked at before the runtime gets it: what cannot run is told in a sentence, and the
 * last that could runs on. The engine is started anew when its configuration changes, and when it dies.
 */
export class Development {
  readonly #options: EngineOptions;
  readonly #stop: AbortSignal;
  readonly #tell: (line: string) => void;
  readonly #changes: Changes;
  readonly #wiring: Wiring;
  /** Files and folders that an engine reads as it starts, beside the configuration. */
  readonly #apart: readonly string[];
  readonly #config: string;
  #engine: Engine | undefined;
  #front: readonly number[] = [];
  #ran = false;
  /** Resolves when the runtime says that it does not take the Worker. */
  #refused = Promise.withResolvers<{ refused: string }>();
  readonly #watchdog = new Watchdog();
  #told = "";

  constructor(options: EngineOptions & { project: Project; signal: AbortSignal }, tell: (line: string) => void) {
    const { folder, project, secrets, vars = {}, signal } = options;
    this.#apart = [secrets, ...project.migrations.folders];
    this.#config = project.config;
    this.#changes = new Changes([sourcesOf(project), this.#config, ...this.#apart]);
    this.#wiring = new Wiring({ folder: join(folder, "wiring"), project, secrets, set: [...Object.keys(vars), "PUBLIC_URL"] });
    this.#options = { ...options, worker: this.#wiring.files };
    this.#stop = signal;
    this.#tell = tell;
  }

  /** Starts as soon as the sources can run. Errors: a `Refusal` when the engine does not come up though they can. */
  async start(): Promise<Engine> {
    for (;;) {
      const good = this.#say(await this.#wiring.look());
      if (good) {
        this.#wiring.use(good);
        const engine = await this.#bringUp();
        if (engine) return engine;
      } else await this.#changes.next(this.#stop);
    }
  }

  /**
   * Follows the sources and the engine until people stop it, or until the state it runs on is gone. Errors: a `Refusal` when the engine
   * does not come up again.
   */
  async run(): Promise<"stopped" | "gone"> {
    const { logFile, logFrom } = this.#engine ?? (await this.start());
    // What it said as it came up, such as of a variable that cannot be meant, it does not say again.
    const unfollow = followLog(logFile, (line) => this.#hear(line), logFrom);
    return this.#untilOver().finally(unfollow);
  }

  async stop(): Promise<void> {
    const engine = this.#engine;
    this.#engine = undefined;
    await engine?.stop();
  }

  #hear(line: string): void {
    if (isLoadingError(line)) this.#refused.resolve({ refused: lastError(line) });
    else this.#tell(line);
  }

  async #untilOver(): Promise<"stopped" | "gone"> {
    const state = join(this.#options.folder, "state");
    while (!this.#stop.aborted) {
      const engine = this.#engine ?? (await this.start());
      this.#refused = Promise.withResolvers();
      const over = new AbortController();
      const signal = AbortSignal.any([over.signal, this.#stop]);
      try {
        const what = await Promise.race([
          this.#changes.next(signal).catch(() => "stop" as const),
          engine.ended.then(() => "ended" as const),
          untilSeen(() => !this.#front.every(isAlive), signal).then(() => "ended" as const),
          untilSeen(() => !existsSync(state), signal).then(() => "gone" as const),
          this.#watchdog.untilUnresponsive(engine, signal),
          this.#refused.promise,
        ]);
        if (what === "stop") return "stopped";
        // Whatever it was noticed by: an engine whose state is gone must not go on without it.
        if (!existsSync(state)) {
          await this.stop();
          return "gone";
        }
        if (Array.isArray(what)) await this.#take(what).catch((error: unknown) => this.#sayDisk(error));
        else if (typeof what === "object") await this.#waitFor(`The Worker cannot be loaded: ${what.refused}`);
        else if (what === "ended") await this.#startAnew("The runtime has ended");
        else if (typeof what === "number") await this.#startAnew(`It has not answered for ${what / 1000} s`);
      } finally {
        over.abort();
      }
    }
    return "stopped";
  }

  /** Something was saved. */
  async #take(files: readonly string[]): Promise<void> {
    const good = this.#say(await this.#wiring.look());
    if (!good) return;
    const isApart = (file: string) => this.#apart.some((path) => file === path || file.startsWith(`${path}/`));
    const anew = files.find((file) => (file === this.#config ? this.#wiring.isNew(good) : isApart(file)));
    if (anew !== undefined) await this.stop();
    this.#wiring.use(good);
    if (anew !== undefined) await this.#startAnew(`${shown(anew)} has changed`);
  }

  /** Where the disk alone keeps a save from what runs, that runs on. */
  #sayDisk(error: unknown): void {
    if (!isOfDisk(error) || !this.#engine) throw error;
    say(
      `\n${paint("red", "✗")} ${errorWords(error, "save again")}\n  ${paint("dim", "The previous version keeps running; Ctrl-C stops it.")}`,
    );
  }

  async #startAnew(why: string): Promise<void> {
    say(paint("yellow", `${why}: starting again with the existing state …`));
    await this.stop();
    const engine = await this.#bringUp();
    if (engine) say(`${paint("green", "●")} It runs again at ${engine.url}.`);
  }

  /** The runtime does not take the Worker: only a save can help. */
  async #waitFor(why: string): Promise<void> {
    say(`${paint("red", "✗")} ${why}\n  ${paint("dim", "It starts with the next save; Ctrl-C stops it.")}`);
    await this.stop();
    await this.#changes.next(this.#stop);
  }

  /** Undefined when the Worker's own code kept the runtime from starting, and something has been saved since. */
  async #bringUp(): Promise<Engine | undefined> {
    for (let tries = 1; ; tries++) {
      // A save may mend the reason for which the runtime does not come up.
      const over = new AbortController();
      const saved = this.#changes.next(AbortSignal.any([over.signal, this.#stop])).then(
        () => {
          over.abort();
          return true;
        },
        () => false,
      );
      try {
        this.#wiring.restore();
        const signal = AbortSignal.any([over.signal, this.#stop]);
        this.#engine = await startEngine({ ...this.#options, startWithinMs: within(tries), signal });
        over.abort();
        if (await saved) {
          await this.stop();
          over.signal.throwIfAborted();
        }
        this.#front = this.#engine.front();
        this.#ran = true;
        return this.#engine;
      } catch (error) {
        over.abort();
        this.#stop.throwIfAborted();
        if (await saved) {
          const good = this.#say(await this.#wiring.look());
          if (good) this.#wiring.use(good);
          tries = 0;
          continue;
        }
        // The reason is in the folder, such as a migration that fails: after a first run, a save may mend it.
        const isMendable = error instanceof Refusal && !(error instanceof NotStarted) && this.#ran;
        if (isMendable) {
          await this.#waitFor(error.message);
          return undefined;
        }
        if (!(error instanceof NotStarted) || (!this.#ran && tries === FIRST_TRIES)) throw error;
        if (error.byWorker) {
          await this.#waitFor(error.message);
          return undefined;
        }
        say(paint("dim", `${error.message} Trying again, for up to ${within(tries + 1) / 1000} s …`));
        await sleep(Math.min(PAUSE_MS.each * tries, PAUSE_MS.most), undefined, { signal: this.#stop });
      }
    }
  }

  /** Tells what is wrong, once; and when it is mended. */
  #say({ mistakes, good, inputs }: Verdict): Verdict["good"] {
    this.#changes.watch(inputs);
    const told = mistakes.map(({ says }) => `${paint("red", "✗")} ${says}`).join("\n");
    if (told !== this.#told && told !== "") {
      const goesOn = this.#engine ? "The previous version keeps running" : "It starts with the next save";
      say(`\n${told}\n  ${paint("dim", good ? "It runs anyway." : `${goesOn}; Ctrl-C ends.`)}`);
    }
    if (told === "" && this.#told !== "") say(`${paint("green", "●")} Fixed.`);
    this.#told = told;
    return good;
  }
}

const within = (tries: number) => Math.min(START_MS.each * tries, START_MS.most);
