import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../command.ts";
import { settingsIn } from "../disk.ts";
import { shown } from "../local/wrangler.ts";

/** A consumer as the platform has it. A number that is left out is the platform's own choice. */
export interface ConfiguredConsumer {
  queue: string;
  max_batch_size?: number;
  max_batch_timeout?: number;
  max_retries?: number;
  max_concurrency?: number;
  dead_letter_queue?: string;
}

/** What the wiring is held against in `wrangler.jsonc`; everything else in it is passed on as it is. */
export interface Config {
  main?: string;
  vars?: Record<string, unknown>;
  define?: Record<string, string>;
  build?: object;
  workflows?: { binding: string; name: string; class_name: string; script_name?: string }[];
  queues?: {
    producers?: { binding: string; queue: string }[];
    consumers?: ConfiguredConsumer[];
  };
  durable_objects?: { bindings?: { name: string; class_name: string; script_name?: string }[] };
  d1_databases?: { binding: string; database_id: string }[];
  services?: { binding: string; service: string; entrypoint?: string }[];
  migrations?: { new_sqlite_classes?: string[] }[];
  name?: string;
  [other: string]: unknown;
}

/** Editors that write in place empty a file first: one that ends too early is read again for so long, before anything is said of it. */
const WRITTEN_WITHIN_MS = 2000;
const READ_EVERY_MS = 100;

/** A file that ends before its JSON does. */
class CutShort extends Refusal {}

/** As `readConfig`, of a file that somebody may just be writing. */
export async function readSavedConfig(file: string, withinMs = WRITTEN_WITHIN_MS): Promise<Config> {
  for (const until = Date.now() + withinMs; ; await sleep(READ_EVERY_MS)) {
    try {
      return readConfig(file);
    } catch (error) {
      if (!(error instanceof CutShort) || Date.now() >= until) throw error;
    }
  }
}

/** Reads a configuration with comments. Errors: a `Refusal` that says in which line it is no JSON. */
export function readConfig(file: string): Config {
  const text = settingsIn(file);
  try {
    return JSON.parse(withoutComments(text)) as Config;
  } catch (error) {
    const why = error instanceof Error ? error.message.replace(/ \(line \d+ column \d+\)$/, "") : String(error);
    const place = /position (\d+)/.exec(why)?.[1];
    const line = place === undefined ? text.split("\n").length : text.slice(0, Number(place)).split("\n").length;
    const Kind = place === undefined || Number(place) >= text.trimEnd().length ? CutShort : Refusal;
    throw new Kind(
      `${shown(file)}:${line} is not JSON: ${why.replace(/ in JSON at position \d+.*/s, "")}. Look there, or at the line before.`,
    );
  }
}

/** Comments and commas before a closing bracket become spaces, so that every place in the text stays where it was. */
function withoutComments(text: string): string {
  const blank = (found: string) => (found.startsWith('"') ? found : found.replace(/[^\n]/g, " "));
  const plain = text.replace(/"(?:\\.|[^"\\\n])*"|\/\/[^\n]*|\/\*[\s\S]*?\*\//g, blank);
  return plain.replace(/"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])/g, blank);
}
