import fs from "node:fs";

/** A text of vitest's pool or of miniflare, and what stands in its stead. */
interface Change {
  file: RegExp;
  text: string;
  quicker: string;
}

/**
 * The Worker's module is looked for once instead of at everything that is asked of it: for each request, batch, run and object the pool goes
 * through an object of its own, twice. What was found is known from then on, by the runner that loaded it (measured: a twelfth of what
 * workerd takes).
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
 * A timer with a delay is a timer: the pool looks through the stack for who sets each, and lets those with a delay be as they are. Every
 * statement of the database has such a timer (measured: 0.2 to 0.4 s of a processor in two minutes of the API's tests).
 */
const PLAIN_TIMERS: Change = {
  file: /vitest-pool-workers\/dist\/worker\/index\.mjs$/,
  text: "	const callerFileName = getCallerFileName(monkeypatchedSetTimeout);",
  quicker: `	if (delay) return originalSetTimeout.apply(globalThis, args);
	const callerFileName = getCallerFileName(monkeypatchedSetTimeout);`,
};

/**
 * What is asked of the database is one transaction without a wait in it. The package's own waits for a bookmark, by which a session of D1
 * reads what it wrote: there is none here (measured: a fifth of the 0.43 ms that a statement takes, three to five hundredths of all).
 */
const ONE_GO: Change = {
  file: /miniflare\/dist\/src\/workers\/d1\/database\.worker\.js$/,
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
 * Lets the tests' runtimes do without what takes of a processor and changes nothing. There are no options for that, so the
 * text is changed as it is read; another text is an error.
 */
export function quickenPool(): void {
  const read = fs.readFileSync;
  fs.readFileSync = ((...args: Parameters<typeof read>) => {
    const found = read(...args);
    const change = [KNOWN_WORKER, PLAIN_TIMERS, ONE_GO].find(({ file }) => file.test(String(args[0])));
    if (!change) return found;
    const text = String(found);
    // Whoever loads vitest's configuration twice in one process has it changed already.
    if (text.includes(change.quicker)) return found;
    if (!text.includes(change.text)) throw new Error(`There is another ${args[0]} than the one that test/quicker-pool.ts changes.`);
    const changed = text.replace(change.text, () => change.quicker);
    return typeof found === "string" ? changed : Buffer.from(changed);
  }) as typeof read;
}
