import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";
import { emptyFolder } from "./folder.ts";

/** The console as `npm install` builds it. */
const BUILT = "packages/millrace/src/http/console/built.js";

/** A new user's folder: the files of a clone, and the packages; with or without the console that their installation has built. */
export function clone({ isBuilt }: { isBuilt: boolean }): string {
  const folder = emptyFolder();
  const files = execFileSync(
    "git",
    ["ls-files", "--cached", "--others", "--exclude-standard", "src", "packages", "migrations", "*.json", "*.jsonc"],
    {
      cwd: ROOT,
      encoding: "utf8",
    },
  );
  for (const file of [...files.trim().split("\n"), ...(isBuilt ? [BUILT] : [])]) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(ROOT, file), join(folder, file));
  }
  linkPackages(folder);
  return folder;
}

/** Installs the packages of this checkout as links; `millrace` is the copy in the folder itself. */
function linkPackages(folder: string): void {
  const packages = join(folder, "node_modules");
  mkdirSync(packages);
  for (const name of readdirSync(join(ROOT, "node_modules"))) {
    if (name !== "millrace" && name !== ".cache") symlinkSync(join(ROOT, "node_modules", name), join(packages, name));
  }
  symlinkSync("../packages/millrace", join(packages, "millrace"));
}

/** Less than the test's timeout: a busy machine needs more than a minute for a start. */
const SAYS_WITHIN_MS = 150_000;

/** `npm start` in a clone, with its captured output. */
export class Terminal {
  readonly #child: ChildProcess;
  readonly #folder: string;
  #said = "";
  #read = 0;

  constructor(folder: string, port: number) {
    this.#folder = folder;
    this.#child = spawn(process.execPath, ["packages/millrace/cli/launch.js", "dev", "--port", String(port)], { cwd: folder });
    this.#child.stdout?.on("data", (chunk) => {
      this.#said += chunk;
    });
    this.#child.stderr?.on("data", (chunk) => {
      this.#said += chunk;
    });
    // The started command itself ends its engine, which runs in a separate process group.
    onTestFinished(async () => void (await this.end()));
  }

  /** Waits for new output that contains the text. Returns all output up to that text. */
  async says(what: string): Promise<string> {
    for (const until = Date.now() + SAYS_WITHIN_MS; Date.now() < until; ) {
      const at = this.#said.indexOf(what, this.#read);
      if (at >= 0) {
        const text = this.#said.slice(this.#read, at + what.length);
        this.#read = at + what.length;
        return text;
      }
      if (this.#child.exitCode !== null) throw new Error(`The command ended without the output “${what}”:\n${this.#said}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`The output does not contain “${what}”, but:\n${this.#said.slice(this.#read)}`);
  }

  /** Saves an error, waits for its message, and fixes it. Returns the delay of the message, and the later output. */
  async mistake(file: string, right: string, wrong: string, sentence: string): Promise<{ took: number; meanwhile: string }> {
    const path = join(this.#folder, file);
    const text = readFileSync(path, "utf8");
    expect(text, `${file} contains the text to replace`).toContain(right);
    const since = Date.now();
    writeFileSync(path, text.replace(right, wrong));
    await this.says(sentence);
    const took = Date.now() - since;
    writeFileSync(path, text);
    return { took, meanwhile: await this.says("Fixed.") };
  }

  /** All output. */
  get said(): string {
    return this.#said;
  }

  async end(): Promise<number | null> {
    if (this.#child.exitCode === null) {
      this.#child.kill("SIGINT");
      await once(this.#child, "exit");
    }
    return this.#child.exitCode;
  }
}
