import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pRetry from "p-retry";
import { type Engine, startEngine } from "../../packages/millrace/cli/local/engine-process.ts";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";

/** The target of a kill: the engine's workerd, which is then restarted; or all of the engine, as in a power failure. */
export type Death = "runtime" | "everything";

/** The maximum time to restart a dead runtime before all of it is restarted. Measured: a second, and five under load. */
const REVIVE_MS = 8000;

export interface EngineSettings {
  vars: Record<string, string>;
  /** Beside `MILLRACE_KEY`. Default: none. */
  secrets?: Record<string, string>;
  /** The Worker's own file. Default: the one of this checkout. */
  config?: string;
}

/** A real engine whose state survives its process. */
export class ChaosEngine {
  readonly #folder: string;
  readonly #settings: EngineSettings;
  #port: Promise<number> | undefined;
  #engine: Engine | undefined;
  #ended = false;

  /** `folder` contains the state and the log. */
  constructor(folder: string, settings: EngineSettings) {
    this.#folder = folder;
    this.#settings = settings;
  }

  get url(): string {
    return this.#engine?.url ?? "";
  }

  get token(): string {
    return this.#engine?.token ?? "";
  }

  /** Starts it on the stored state, on the same port every time, and waits until it answers. */
  async start(): Promise<void> {
    if (this.#ended) return;
    this.#port ??= freePort();
    const { config, vars } = this.#settings;
    const secrets = join(this.#folder, "secrets");
    const lines = Object.entries({ MILLRACE_KEY: "chaos", ...this.#settings.secrets }).map(([name, value]) => `${name}=${value}\n`);
    writeFileSync(secrets, lines.join(""));
    const options = {
      folder: this.#folder,
      port: await this.#port,
      secrets,
      config,
      vars: { KEEPER_PERIOD_MS: "2000", ...vars },
    };
    // A dead process may hold its port for a moment longer.
    this.#engine = await pRetry(() => startEngine(options), { retries: 4, minTimeout: 500 });
  }

  /** Kills without warning. Returns the number of killed processes. */
  async kill(death: Death): Promise<number> {
    return (await this.#engine?.kill9(death))?.length ?? 0;
  }

  /** Waits until the Worker answers again after a death, and restarts all of it where it did not survive. */
  async revive(death: Death): Promise<void> {
    if (death === "runtime") {
      if (await this.#answersSoon()) return;
      await this.kill("everything");
    }
    await this.start();
  }

  /** Polls: a request while a new runtime starts may never be answered. */
  async #answersSoon(): Promise<boolean> {
    const deadline = Date.now() + REVIVE_MS;
    for (let patienceMs = 250; Date.now() < deadline; patienceMs = Math.min(patienceMs * 2, 2000)) {
      const answer = await fetch(`${this.url}/healthz`, { signal: AbortSignal.timeout(patienceMs) }).catch(() => undefined);
      if (answer?.ok) return true;
      await sleep(20);
    }
    return false;
  }

  /** Stops its runtime for this duration, as an overloaded machine does. Returns the number of stopped processes. */
  async freeze(ms: number): Promise<number> {
    const runtime = this.#engine?.runtime() ?? [];
    const frozen = runtime.filter((pid) => signalled(pid, "SIGSTOP"));
    await sleep(ms);
    for (const pid of frozen) signalled(pid, "SIGCONT");
    return frozen.length;
  }

  /** The runtime's processes. */
  runtime(): number[] {
    return this.#engine?.runtime() ?? [];
  }

  /** Where it writes its log. */
  get log(): string {
    return this.#engine?.logFile ?? "";
  }

  /** Ends it for good: a part of the run that still waits cannot restart it. */
  async end(): Promise<void> {
    this.#ended = true;
    await this.#engine?.stop();
  }
}

function signalled(pid: number, signal: "SIGSTOP" | "SIGCONT"): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}
