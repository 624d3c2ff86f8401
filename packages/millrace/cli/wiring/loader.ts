import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { Socket } from "node:net";
import type { RunRecord, Walked } from "../../src/check/walk.ts";
import { besideOf } from "../local/doors.ts";
import { errorIn } from "../local/wrangler.ts";
import { type Look, placeIn } from "./known.ts";
import type { CallBetween } from "./walk.ts";

/** Timeouts for loading the sources. The second attempt gets more time, because the machine may be busy. */
const LOAD_WITHIN_MS = [20_000, 60_000];

/**
 * Loads a bundle in a separate process and returns the bundle's definitions. The process is started in advance, because the start takes as
 * long as the load.
 */
export class Loader {
  readonly #sources: string;
  #next: ChildProcess;

  /** `sources` is the folder of the sources; errors name only files in this folder. */
  constructor(sources: string) {
    this.#sources = sources;
    this.#next = started(sources);
  }

  get pid(): number | undefined {
    return this.#next.pid;
  }

  /** Loads the definitions of a bundle file. `within` contains the timeout in ms of each attempt. */
  async load(bundle: string, within: readonly number[] = LOAD_WITHIN_MS): Promise<Look> {
    for (const ms of within) {
      const said = await this.#hear(bundle, ms);
      if (said !== "late") return said;
    }
    const seconds = within.map((ms) => `${ms / 1000} s`).join(", then ");
    return { error: `they took longer than ${seconds}. They start something that never ends, or the machine is too busy.`, at: undefined };
  }

  async #hear(bundle: string, withinMs: number): Promise<Look | "late"> {
    if (!this.#next.connected) this.#next = started(this.#sources);
    const child = this.#next;
    child.ref();
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      child.kill("SIGKILL");
    }, withinMs);
    let said: Look | undefined;
    child.on("message", (message) => {
      said = message as Look;
    });
    let wrote = "";
    child.stderr?.on("data", (chunk) => {
      wrote += chunk;
    });
    child.send(bundle);
    const [code, signal] = await once(child, "close");
    clearTimeout(timer);
    this.#next = started(this.#sources);
    if (said) return said;
    if (late) return "late";
    const why = code === UNSETTLED ? "an await outside of all functions never ends" : `it ended with ${signal ?? `exit code ${code}`}`;
    const thrown = errorIn(wrote);
    return {
      error: `the process that loaded them ended: ${thrown ?? why}.`.replace(/\.\.$/, "."),
      at: placeIn(wrote, this.#sources),
      ...(thrown !== undefined && { thrown: /\b\w*Error\b/.exec(thrown)?.[0] ?? "value" }),
    };
  }
}

/** Time without a sign of life of the process that replays recorded runs. Its code then executes a loop without `await`. */
const SILENT_MS = 10_000;

/** The results of the replays, and the calls between steps that each replay repeats. */
interface Replayed {
  readonly walked: readonly Walked[];
  readonly calls: readonly CallBetween[];
}

/** Replays recorded runs in a separate process, with the code of a bundle that `look` made for it. */
export async function walked(bundle: string, records: readonly RunRecord[], vars: object): Promise<Replayed | { error: string }> {
  if (records.length === 0) return { walked: [], calls: [] };
  const child = fork(besideOf(import.meta.filename, "walk"), [], {
    // The code of the workflows reads files only, and sees the variables of the Worker instead of those of this process.
    env: Object.fromEntries(Object.entries(vars).map(([name, value]) => [name, String(value)])) as typeof process.env,
    execArgv: ["--enable-source-maps", "--disable-warning=ExperimentalWarning", "--permission", "--allow-fs-read=*"],
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  let wrote = "";
  child.stderr?.on("data", (chunk) => {
    wrote += chunk;
  });
  child.send({ bundle, records, vars });
  let said: Replayed | undefined;
  let open: string[] = [];
  let timer: NodeJS.Timeout | undefined;
  child.on("message", (message: { open: string[] } | Replayed) => {
    clearTimeout(timer);
    if ("walked" in message) said = message;
    else {
      open = message.open;
      timer = setTimeout(() => {
        wrote = `the code of ${open.join(" or ")} calls no step and does not return. Look for a loop without await.`;
        child.kill("SIGKILL");
      }, SILENT_MS);
    }
  });
  await once(child, "close");
  clearTimeout(timer);
  return said ?? { error: wrote };
}

/** Starts a child process that waits for a bundle. The current process can end while the child process still waits. */
function started(sources: string): ChildProcess {
  const child = fork(besideOf(import.meta.filename, "look"), [sources], {
    execArgv: ["--enable-source-maps", "--disable-warning=ExperimentalWarning"],
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  child.unref();
  child.channel?.unref();
  if (child.stderr instanceof Socket) child.stderr.unref();
  return child;
}

/** The exit code with which Node ends if a top-level await never settles. */
const UNSETTLED = 13;
