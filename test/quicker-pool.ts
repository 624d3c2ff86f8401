import fs from "node:fs";

/** A text in the source of vitest's pool or of miniflare, and its replacement. */
interface Change {
  file: RegExp;
  text: string;
  quicker: string;
}

/**
 * The Worker's module is looked up once instead of on each request: for each request, batch, run and object the pool uses an intermediate
 * object, twice. The result is cached by the runner that loaded it (measured: 8 % of workerd's time).
 */
const KNOWN_WORKER: Change = {
  file: /vitest-pool-workers\/dist\/worker\/lib\/cloudflare\/test-internal\.mjs$/,
  text: `return runInRunnerObject(() => {
		return __vitest_mocker__.moduleRunner.import(specifier);
	});`,
  quicker: `const { moduleRunner } = __vitest_mocker__;
	const known = (moduleRunner.millraceKnown ??= new Map());
	if (!known.has(specifier)) known.set(specifier, await runInRunnerObject(() => moduleRunner.import(specifier)));
	return known.get(specifier);`,
};

/**
 * Timers with a delay stay unchanged: the pool otherwise searches the stack for the caller of each timer. Every database statement has
 * such a timer (measured: 0.2 to 0.4 s of processor time in two minutes of the API's tests).
 */
const PLAIN_TIMERS: Change = {
  file: /vitest-pool-workers\/dist\/worker\/index\.mjs$/,
  text: "	const callerFileName = getCallerFileName(monkeypatchedSetTimeout);",
  quicker: `	if (delay) return originalSetTimeout.apply(globalThis, args);
	const callerFileName = getCallerFileName(monkeypatchedSetTimeout);`,
};

const DATABASE = /miniflare\/dist\/src\/workers\/d1\/database\.worker\.js$/;

/**
 * A database request is one transaction without a wait. The package otherwise waits for a bookmark, with which a session of D1 reads its
 * own writes: there is none here (measured: 20 % of the 0.43 ms of a statement, 3 to 5 % of all).
 */
const ONE_GO: Change = {
  file: DATABASE,
  text: `return await this.state.storage.transaction(async () => {
        let results = queries.map(this.#query.bind(this, format)), commitToken;
        try {
          commitToken = await this.state.storage.getCurrentBookmark();
        } catch (e) {
          let message = e instanceof Error ? e.message : String(e);
          throw new Error(\`Failed to get session commit token: \${message}\`, {
            cause: e
          });
        }
        return { results, commitToken };
      });`,
  quicker: `let results = this.state.storage.transactionSync(() => queries.map(this.#query.bind(this, format)));
      return { results, commitToken: "" };`,
};

/**
 * The result of a binding, which validates each value itself, is used unchanged: the package would validate it again by a schema (sampled:
 * 3 % of the app's test runtime).
 */
const AS_BOUND: Change = {
  file: DATABASE,
  text: "let queries = D1QueriesSchema.parse(await req.json());",
  quicker: "let queries = await req.json();",
};

const CHANGES = [KNOWN_WORKER, PLAIN_TIMERS, ONE_GO, AS_BOUND];

/**
 * Removes work from the tests' runtimes that costs processor time and changes no result. There are no options for that, so the source text
 * is changed when it is loaded; a source with a different text is an error.
 */
export function quickenPool(): void {
  const read = fs.readFileSync;
  fs.readFileSync = ((...args: Parameters<typeof read>) => {
    const found = read(...args);
    const changes = CHANGES.filter(({ file }) => file.test(String(args[0])));
    if (changes.length === 0) return found;
    const text = changes.reduce((so, change) => changed(so, change, String(args[0])), String(found));
    return typeof found === "string" ? text : Buffer.from(text);
  }) as typeof read;
}

function changed(so: string, { text, quicker }: Change, where: string): string {
  // A second load of vitest's configuration in one process finds the source already changed.
  if (so.includes(quicker)) return so;
  if (!so.includes(text)) throw new Error(`${where} does not contain the text that test/quicker-pool.ts changes.`);
  return so.replace(text, () => quicker);
}
