import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** The interval between polls of the sources. A poll takes 5 ms of processor time. */
const LOOK_EVERY_MS = 250;
/** A change of the sources is regarded as complete if no further change follows within this time. */
const WHOLE_AFTER_MS = 50;
/** How long to wait until an empty file has content again, because some editors empty a file before they save the file. */
const EMPTY_MS = 2000;

/** The size and modification time of each file. */
type Moment = ReadonlyMap<string, string>;

/** Watches files and folders by polling, which works on every file system and takes milliseconds. */
export class Changes {
  readonly #paths: Set<string>;
  #known: Moment;

  constructor(paths: readonly string[]) {
    this.#paths = new Set(paths);
    this.#known = momentOf(paths);
  }

  watch(files: readonly string[]): void {
    const more = files.filter((file) => !this.#known.has(file));
    for (const file of more) this.#paths.add(file);
    this.#known = new Map([...this.#known, ...momentOf(more)]);
  }

  /** Waits for a change and until the change is complete. Returns the changed files. Rejects if the signal aborts. */
  async next(signal: AbortSignal): Promise<string[]> {
    for (;;) {
      await sleep(LOOK_EVERY_MS, undefined, { signal });
      let now = momentOf(this.#paths);
      if (changed(this.#known, now).length === 0) continue;
      const since = Date.now();
      const isBeingWritten = () =>
        Date.now() - since < EMPTY_MS && changed(this.#known, now).some((file) => now.get(file)?.startsWith("0 "));
      for (let before: Moment | undefined; before === undefined || changed(before, now).length > 0 || isBeingWritten(); ) {
        before = now;
        await sleep(WHOLE_AFTER_MS, undefined, { signal });
        now = momentOf(this.#paths);
      }
      const files = changed(this.#known, now);
      this.#known = now;
      if (files.length > 0) return files;
    }
  }
}

function changed(before: Moment, now: Moment): string[] {
  return [...new Set([...before.keys(), ...now.keys()])].filter((file) => before.get(file) !== now.get(file));
}

const OF_TOOLS = /^(?:\..*|node_modules|dist|coverage)$/;

function momentOf(paths: Iterable<string>): Moment {
  const files = new Map<string, string>();
  const add = (path: string) => {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat?.isFile()) files.set(path, `${stat.size} ${stat.mtimeMs} ${stat.ino}`);
    if (stat?.isDirectory()) for (const name of readdirSync(path)) if (!OF_TOOLS.test(name)) add(join(path, name));
  };
  for (const path of paths) add(path);
  return files;
}
