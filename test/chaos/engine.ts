import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pRetry from "p-retry";
import { type Engine, startEngine } from "../../packages/millrace/cli/local/engine-process.ts";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";

/** The target of a kill: the engine's workerd, which Wrangler then restarts; or the whole engine, as in a power failure. */
export type Death = "runtime" | "everything";

/** The maximum time to wait for a restarted runtime before the whole engine is restarted. Measured: 1 s, and 5 s under load. */
const REVIVE_MS = 8000;

export interface EngineSettings {
  vars: Record<string, string>;
  /** Environment variables in addition to `MILLRACE_KEY`. Default: none. */
  secrets?: Record<string, string>;
  /** The Worker's own file. Default: the one of this checkout. */
  config?: string;
}

/** A real engine with state that survives its process. */
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

  /** Starts the engine on the stored state, always on the same port, and waits until it responds. */
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

  /** Waits until the Worker responds again after a kill, and restarts the whole engine if it did not survive. */
  async revive(death: Death): Promise<void> {
    if (death === "runtime") {
      if (await this.#answersSoon()) return;
      await this.kill("everything");
    }
    await this.start();
  }

  /** Polls, because a request during the start of a new runtime may never get a response. */
  async #answersSoon(): Promise<boolean> {
    const deadline = Date.now() + REVIVE_MS;
    for (let patienceMs = 250; Date.now() < deadline; patienceMs = Math.min(patienceMs * 2, 2000)) {
      const answer = await fetch(`${this.url}/healthz`, { signal: AbortSignal.timeout(patienceMs) }).catch(() => undefined);
      if (answer?.ok) return true;
      await sleep(20);
    }
    return false;
  }

  /** Stops the runtime for this duration, as an overloaded machine does. Returns the number of stopped processes. */
  async freeze(ms: number): Promise<number> {
    const runtime = this.#engine?.runtime() ?? [];
    const frozen = runtime.filter((pid) => signalled(pid, "SIGSTOP"));
    await sleep(ms);
    for (const pid of frozen) signalled(pid, "SIGCONT");
    return frozen.length;
  }

  /** The processes of the runtime. */
  runtime(): number[] {
    return this.#engine?.runtime() ?? [];
  }

  /** The path of the engine's log file. */
  get log(): string {
    return this.#engine?.logFile ?? "";
  }

  /** Ends the engine permanently: a part of the test that still waits cannot restart it. */
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
