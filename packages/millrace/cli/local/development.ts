import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import { type Project, sourcesOf } from "../project.ts";
import { errorWords, isOfDisk, paint, say } from "../terminal.ts";
import { Changes } from "../wiring/changes.ts";
import { type Verdict, Wiring } from "../wiring/wiring.ts";
import { type Engine, type EngineOptions, NotStarted, startEngine } from "./engine-process.ts";
import { isAlive } from "./processes.ts";
import { untilSeen, Watchdog } from "./watchdog.ts";
import { followLog } from "./worker-log.ts";
import { isLoadingError, lastError, shown } from "./wrangler.ts";

/**
 * Maximum number of attempts at the first start, which can fail because wrangler ends if its runtime dies. After a successful start, the
 * number of restarts is not limited.
 */
const FIRST_TRIES = 3;
const PAUSE_MS = { each: 500, most: 5000 };
/** The timeout of a start, which increases by one minute for each attempt, because the machine may be slow. */
const START_MS = { each: 60_000, most: 300_000 };

/**
 * An engine that reloads when the sources change. Each save is checked first. If a save is invalid, its mistakes are reported, and the
 * engine continues with the last valid save. The engine restarts if its configuration changes or its process dies.
 */
export class Development {
  readonly #options: EngineOptions;
  readonly #stop: AbortSignal;
  readonly #tell: (line: string) => void;
  readonly #changes: Changes;
  readonly #wiring: Wiring;
  /** Files and folders, except the configuration, that the engine reads only during its start. */
  readonly #apart: readonly string[];
  readonly #config: string;
  #engine: Engine | undefined;
  #front: readonly number[] = [];
  #ran = false;
  /** Resolves if the runtime rejects the Worker. */
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

  /** Starts the engine when the sources are valid. Errors: a `Refusal` if the engine does not start with valid sources. */
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
   * Watches the sources and the engine until the user stops the engine, or the state folder is removed. Errors: a `Refusal` if the engine
   * does not restart.
   */
  async run(): Promise<"stopped" | "gone"> {
    const { logFile, logFrom } = this.#engine ?? (await this.start());
    // Log lines from before the start, and lines that the start already printed, are not printed again.
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
        // If the state folder was removed, the engine must stop.
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

  async #take(files: readonly string[]): Promise<void> {
    const good = this.#say(await this.#wiring.look());
    if (!good) return;
    const isApart = (file: string) => this.#apart.some((path) => file === path || file.startsWith(`${path}/`));
    const anew = files.find((file) => (file === this.#config ? this.#wiring.isNew(good) : isApart(file)));
    if (anew !== undefined) await this.stop();
    this.#wiring.use(good);
    if (anew !== undefined) await this.#startAnew(`${shown(anew)} has changed`);
  }

  /** An error of the disk does not stop the running engine. */
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
    if (engine) say(`${paint("green", "●")} The engine runs again at ${engine.url}.`);
  }

  async #waitFor(why: string): Promise<void> {
    say(`${paint("red", "✗")} ${why}\n  ${paint("dim", "The engine starts with the next save; Ctrl-C stops it.")}`);
    await this.stop();
    await this.#changes.next(this.#stop);
  }

  /** Starts the engine. Undefined if the runtime did not start because of the Worker's code, and a file was saved afterwards. */
  async #bringUp(): Promise<Engine | undefined> {
    for (let tries = 1; ; tries++) {
      // A later save may fix the reason why the runtime does not start.
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
        // After the first successful start, a save may fix the error, because a file such as a failing migration caused the error.
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

  /** Reports each mistake once, and reports when the mistakes are fixed. */
  #say({ mistakes, good, inputs }: Verdict): Verdict["good"] {
    this.#changes.watch(inputs);
    const told = mistakes.map(({ says }) => `${paint("red", "✗")} ${says}`).join("\n");
    if (told !== this.#told && told !== "") {
      const goesOn = this.#engine ? "The previous version keeps running" : "The engine starts with the next save";
      say(`\n${told}\n  ${paint("dim", good ? "The Worker runs anyway." : `${goesOn}; Ctrl-C ends.`)}`);
    }
    if (told === "" && this.#told !== "") say(`${paint("green", "●")} Fixed.`);
    this.#told = told;
    return good;
  }
}

const within = (tries: number) => Math.min(START_MS.each * tries, START_MS.most);
