import fs from "node:fs";

/** The part of vitest's pool that runs in workerd. */
const POOL = /vitest-pool-workers\/dist\/worker\/lib\/cloudflare\/test-internal\.mjs$/;

/** How that finds the module of the Worker: for each request, batch, run and object it goes through an object of its own, twice. */
const LOOKED_UP = `return runInRunnerObject(() => {
		return __vitest_mocker__.moduleRunner.import(specifier);
	});`;

/** The same, but that what was found is known from then on, by the runner that loaded it. */
const KNOWN = `const { moduleRunner } = __vitest_mocker__;
	const known = (moduleRunner.millraceKnown ??= new Map());
	if (!known.has(specifier)) known.set(specifier, await runInRunnerObject(() => moduleRunner.import(specifier)));
	return known.get(specifier);`;

/**
 * Lets the tests' runtimes look for the Worker's module once instead of at everything that is asked of it (measured: a twelfth of what
 * workerd takes). The pool has no option for it, so its text is changed as it is read; a pool with another text is an error.
 */
export function knowTheWorker(): void {
  const read = fs.readFileSync;
  fs.readFileSync = ((...args: Parameters<typeof read>) => {
    const found = read(...args);
    if (!POOL.test(String(args[0]))) return found;
    const text = String(found);
    // Whoever loads vitest's configuration twice in one process has it changed already.
    if (text.includes(KNOWN)) return found;
    if (!text.includes(LOOKED_UP)) throw new Error("vitest's pool looks for the Worker's module in another way: see test/known-worker.ts.");
    const changed = text.replace(LOOKED_UP, () => KNOWN);
    return typeof found === "string" ? changed : Buffer.from(changed);
  }) as typeof read;
}
