import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { kill9, processTree } from "./processes.ts";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const WRANGLER = join(ROOT, "node_modules/wrangler/bin/wrangler.js");
const CONFIG = join(ROOT, "test/probe/wrangler.jsonc");

/** What is killed: the engine's runtime, which wrangler then starts again; or wrangler and all it runs, as when the power fails. */
export type Death = "runtime" | "everything";

/** Longest that a start may take before it counts as failed. */
const START_MS = 60_000;
/** Longest that wrangler may take to bring a dead runtime back before all of it is started anew. Seen: 0.4 s. */
const REVIVE_MS = 8000;

/** A real `wrangler dev` whose state outlives it. */
export class ChaosEngine {
  readonly #folder: string;
  readonly #upstreamUrl: string;
  #port = 0;
  #wrangler: ChildProcess | undefined;
  #ended = false;

  /** `folder` keeps the database, the bundle and the log. */
  constructor(folder: string, upstreamUrl: string) {
    this.#folder = folder;
    this.#upstreamUrl = upstreamUrl;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Creates the tables and bundles the Worker, once: files edited during the run then change nothing in it. */
  async prepare(): Promise<void> {
    this.#port = await freePort();
    mkdirSync(this.#folder, { recursive: true });
    const schema = [...sqlFiles("migrations"), ...sqlFiles("test/probe")].map((file) => readFileSync(file, "utf8")).join("\n");
    writeFileSync(join(this.#folder, "schema.sql"), schema);
    this.#run("d1", "execute", "DB", "--local", "--yes", "--persist-to", this.#at("state"), "--file", this.#at("schema.sql"));
    this.#run(
      "deploy",
      join(ROOT, "test/chaos/worker.ts"),
      "--dry-run",
      "--outdir",
      this.#at("bundle"),
      "--define",
      "MILLRACE_CRASH_POINTS:false",
    );
  }

  /** Starts wrangler on the kept state and waits until the Worker answers. */
  async start(): Promise<void> {
    if (this.#ended) return;
    const log = openSync(this.#at("engine.log"), "a");
    const vars = { UPSTREAM_URL: this.#upstreamUrl, KEEPER_NUDGES: "true", KEEPER_PERIOD_MS: "2000" };
    this.#wrangler = spawn(
      process.execPath,
      [
        ...[WRANGLER, "dev", this.#at("bundle/worker.js"), "--no-bundle", "--config", CONFIG, "--persist-to", this.#at("state")],
        ...["--ip", "127.0.0.1", "--port", String(this.#port), "--inspector-port", "0", "--show-interactive-dev-session=false"],
        ...Object.entries(vars).flatMap(([name, value]) => ["--var", `${name}:${value}`]),
      ],
      { cwd: ROOT, env: this.#env(), stdio: ["ignore", log, log] },
    );
    if (!(await this.#answers(START_MS)))
      throw new Error(`wrangler dev did not start within ${START_MS / 1000} s: read ${this.#at("engine.log")}.`);
  }

  /** Kills without warning. Answers how many processes died. */
  kill(death: Death): number {
    if (this.#wrangler?.pid === undefined) return 0;
    const tree = processTree(this.#wrangler.pid);
    const doomed = death === "everything" ? tree : tree.filter(({ command }) => this.#isRuntime(command));
    kill9(doomed);
    return doomed.length;
  }

  /** Waits until the Worker answers again after a death, starting wrangler anew where it did not survive. */
  async revive(death: Death): Promise<void> {
    if (death === "runtime" && (await this.#answers(REVIVE_MS))) return;
    this.kill("everything");
    await this.start();
  }

  /** Ends it for good: a part of the run that is still waiting cannot bring it back. */
  end(): void {
    this.#ended = true;
    this.kill("everything");
  }

  /** Wrangler runs two workerds: a proxy, which owns the public port, and the one that runs the Worker and holds all state. */
  #isRuntime(command: string): boolean {
    return /workerd[^ ]* serve/.test(command) && !command.includes(`entry=127.0.0.1:${this.#port} `);
  }

  async #answers(withinMs: number): Promise<boolean> {
    const deadline = Date.now() + withinMs;
    while (Date.now() < deadline && this.#wrangler?.exitCode === null && this.#wrangler.signalCode === null) {
      const answer = await fetch(`${this.url}/progress`, { signal: AbortSignal.timeout(2000) }).catch(() => undefined);
      if (answer?.ok) return true;
      await sleep(50);
    }
    return false;
  }

  #run(...args: string[]): void {
    execFileSync(process.execPath, [WRANGLER, ...args, "--config", CONFIG], {
      cwd: ROOT,
      env: this.#env(),
      stdio: ["ignore", "ignore", "inherit"],
    });
  }

  /** No telemetry, no look-ups, no registry shared with another wrangler on this machine: loopback only. */
  #env(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      CI: "1",
      CLOUDFLARE_CF_FETCH_ENABLED: "false",
      WRANGLER_HIDE_BANNER: "true",
      WRANGLER_LOG_PATH: this.#at("wrangler-logs"),
      WRANGLER_REGISTRY_PATH: this.#at("registry"),
      WRANGLER_SEND_METRICS: "false",
    } as NodeJS.ProcessEnv;
  }

  #at(path: string): string {
    return join(this.#folder, path);
  }
}

function sqlFiles(folder: string): string[] {
  const path = join(ROOT, folder);
  return readdirSync(path)
    .filter((file) => file.endsWith(".sql"))
    .sort()
    .map((file) => join(path, file));
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
