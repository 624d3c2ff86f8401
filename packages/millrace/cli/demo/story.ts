import type { Engine } from "../local/engine-process.ts";
import { paint, say } from "../terminal.ts";

/** One system, shown at work on an engine of its own. */
export type Story = About & (Plot | Opening);

interface About {
  /** In one sentence, for the list of demos. */
  readonly title: string;
  /** Options of its command beyond those of every demo. */
  readonly options?: readonly string[];
  /** The first file of a Worker that is this checkout's own and more, under the same configuration. */
  readonly entry?: string;
  /** The configuration of another Worker that it plays on, which has no pages; it binds its database as this checkout's does. */
  readonly config?: string;
  /** Another Worker that it plays on, with a configuration in the demo's folder. Default: the one of this checkout, which has pages. */
  readonly worker?: (folder: string) => { script: string; config: string };
}

interface Plot {
  /** Variables of its engine beyond those of every demo. */
  readonly vars?: Record<string, string>;
  /** Tells it from the first request to the proof. Errors: a `Refusal` when anything is not as Millrace promises. */
  tell(stage: Stage): Promise<void>;
}

/** A plot with servers outside of its engine, which has to know their addresses when it starts. */
interface Opening {
  /** Starts those servers. */
  open(): Promise<Plot & { stop(): void }>;
}

/** What a story plays on. */
export interface Stage {
  /** The engine as it runs now: another one after `crash`. */
  readonly engine: Engine;
  readonly stop: AbortSignal;
  /** What stands behind `npm run demo --`. */
  readonly args: readonly string[];
  /** Kills the engine without warning, and starts it again on the state it left; with these variables changed. */
  crash(changed?: Record<string, string>): Promise<void>;
}

/** A heading. */
export function chapter(number: number, title: string): void {
  say(`\n${paint("bold", `${number}  ${title}`)}`);
}
