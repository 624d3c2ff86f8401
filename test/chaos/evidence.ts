import { copyFileSync, createReadStream, existsSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { LOG_NAME } from "../../packages/millrace/cli/local/wrangler-dev.ts";
import { evidenceOf } from "../proof/judge.ts";
import type { Case } from "../proof/prove.ts";
import type { Stage } from "../proof/stage.ts";
import type { Database } from "./database.ts";

/** The maximum size of the log per run. */
const LINES = 2000;

/** The evidence that is stored with a finding for its analysis. */
export class Evidence {
  readonly #of: string;
  #folder: string | undefined;

  /** `folder`: the folder of the engine. */
  constructor(folder: string) {
    this.#of = folder;
  }

  /** The folder of the evidence, if there is any. */
  get kept(): string | undefined {
    return this.#folder;
  }

  get #place(): string {
    this.#folder ??= mkdtempSync(join(tmpdir(), "millrace-chaos-found-"));
    return this.#folder;
  }

  /** A run that violated a guarantee: the problems with all its records, the program, and the lines of the log and the ledger. */
  async keep(name: string, one: Case, problems: readonly string[], id: string): Promise<void> {
    const about = (line: string) => line.includes(name) || line.includes(id);
    const text = [
      ...problems,
      JSON.stringify(one),
      "",
      "the upstream:",
      ...(await linesOf(join(this.#of, "ledger.jsonl"), about)),
      "",
      "the log:",
      ...(await linesOf(join(this.#of, LOG_NAME), about)),
    ];
    writeFileSync(join(this.#place, `${name}.txt`), `${text.join("\n")}\n`);
  }

  /** Hanging runs: the records of each. */
  async keepHanging(stage: Stage, hanging: readonly { name: string; seed: number }[]): Promise<void> {
    for (const { name, seed } of hanging) {
      const id =
        (await stage.rows<{ id: string }>("SELECT id FROM millrace_instances WHERE subject = ?1 AND workflow = 'lab'", name))[0]?.id ?? "";
      const said = await evidenceOf(stage, { name, id, program: { do: "sleep" } }).catch(String);
      writeFileSync(join(this.#place, `${name}.hangs.txt`), `seed ${seed}\n${said}\n`);
    }
  }

  /** The database, the ledger and the log, unchanged. */
  keepAll(database: Database, log: string): void {
    mkdirSync(this.#place, { recursive: true });
    database.copyTo(join(this.#place, "database.sqlite"));
    for (const file of [join(this.#of, "ledger.jsonl"), log]) {
      const to = join(this.#place, file.slice(file.lastIndexOf("/") + 1));
      if (existsSync(file)) copyFileSync(file, to);
    }
  }
}

/** The last matching lines of a file. */
async function linesOf(file: string, meant: (line: string) => boolean): Promise<string[]> {
  const found: string[] = [];
  if (!existsSync(file)) return found;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    if (meant(line)) found.push(line);
    if (found.length > LINES) found.shift();
  }
  return found;
}
