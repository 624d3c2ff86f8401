import "./packages/millrace/cli/local/lighter-start.ts";
import "./test/plain-talk.ts";
import { randomInt } from "node:crypto";
import { defineConfig, type Plugin, type TestProjectConfiguration } from "vitest/config";
import { builtConsole } from "./packages/millrace/cli/local/console.ts";
import { sourceDoors } from "./packages/millrace/cli/local/doors.ts";
import { readConfig } from "./packages/millrace/cli/wiring/config.ts";
import { keepInMemory } from "./test/in-memory.ts";
import { chosenMutants, withBugs, withMutants } from "./test/proof/mutants/plugin.ts";
import { stepsWanted } from "./test/proof/steps-of-all.ts";
import { quickenPool } from "./test/quicker-pool.ts";
import { hideRuntimeNoise } from "./test/quiet.ts";
import { shorterWaits } from "./test/shorter-waits.ts";
import { roomForTheYoung, V8_FLAGS } from "./test/young-space.ts";

// This package must be imported after ./lighter-start.ts, which changes miniflare's code when Node loads that code.
const { cloudflareTest, readD1Migrations } = await import("@cloudflare/vitest-pool-workers");

hideRuntimeNoise();
keepInMemory();
quickenPool();
roomForTheYoung();
await builtConsole();

/**
 * `MILLRACE_MUTANT="an undo runs in forward order" npx vitest run …` loads the source code with this bug. The bugs are in
 * test/proof/mutants.
 */
const mutants = chosenMutants(process.env.MILLRACE_MUTANT);

const ENGINE = "packages/millrace/migrations";
const migrations = [...withBugs(ENGINE, await readD1Migrations(ENGINE), mutants), ...(await readD1Migrations("migrations"))];
const probeMigrations = [...migrations, ...(await readD1Migrations("test/probe"))];

/**
 * `MILLRACE_PROOF_SEED=4711 MILLRACE_PROOF_SECONDS=600 npx vitest run --project engine test/proof/random.test.ts` repeats the random
 * programs of a seed for 600 s. With `MILLRACE_FULL_SIZE=true`, test/proof/sweep.test.ts tries every fault.
 */
const proofSeed = Number(process.env.MILLRACE_PROOF_SEED ?? (process.env.CI ? 4711 : randomInt(1_000_000)));
const proof = {
  // CI uses a fixed seed, so that a new failure is caused by the tested change and not by a new random program.
  seed: proofSeed,
  // With two cells, the two tenants of the programs live in different databases.
  cells: proofSeed % 2 === 0 ? 1 : 2,
  seconds: Number(process.env.MILLRACE_PROOF_SECONDS ?? 12),
  lanes: Number(process.env.MILLRACE_PROOF_LANES ?? 6),
  patienceSeconds: Number(process.env.MILLRACE_PROOF_PATIENCE_SECONDS ?? 60),
  shrinkSeconds: Number(process.env.MILLRACE_PROOF_SHRINK_SECONDS ?? 120),
  finds: Number(process.env.MILLRACE_PROOF_FINDS ?? 1),
  without: process.env.MILLRACE_PROOF_WITHOUT ?? "",
  steps: stepsWanted(process.env.MILLRACE_PROOF_STEPS),
  clockMs: Number(process.env.MILLRACE_PROOF_CLOCK_MS ?? 0),
  whole: process.env.MILLRACE_FULL_SIZE === "true",
};

/**
 * The seed and the number of random hostile requests. `MILLRACE_FUZZ_SEED=7 MILLRACE_FUZZ_INPUTS=100000 npx vitest run --project app
 * test/api/hostile/fuzz.test.ts` sends more requests, with another seed.
 */
const fuzz = { seed: Number(process.env.MILLRACE_FUZZ_SEED ?? 4711), inputs: Number(process.env.MILLRACE_FUZZ_INPUTS ?? 1500) };

/** True if each D1 call of the engine's tests takes 100 ms more and each call of an object 20 ms: see test/platform-limits.ts. */
const isSlow = process.env.MILLRACE_SLOW_PLATFORM === "true";

/**
 * The queue consumers of wrangler.jsonc, with one difference: each batch is delivered immediately, without waiting for further messages.
 */
const queueConsumers = Object.fromEntries(
  (readConfig("wrangler.jsonc").queues?.consumers ?? []).map(({ queue, max_batch_size, max_retries, dead_letter_queue }) => [
    queue,
    { maxBatchSize: max_batch_size, maxBatchTimeout: 0, maxRetries: max_retries, deadLetterQueue: dead_letter_queue },
  ]),
);

/** Resolves imports of the package to its source files. */
const fromSources: Plugin = {
  name: "millrace-from-sources",
  config: () => ({
    resolve: { alias: Object.entries(sourceDoors()).map(([door, file]) => ({ find: new RegExp(`^${door}$`), replacement: file })) },
  }),
};

/** Resolves npm packages to their production builds. Vite would select the development builds, which contain additional checks. */
const asDeployed: Plugin = {
  name: "packages-as-deployed",
  configResolved({ environments }) {
    for (const { resolve } of Object.values(environments))
      resolve.conditions = resolve.conditions.filter((one) => !one.startsWith("development"));
  },
};

/**
 * Returns a project of app tests, which run in workerd with real bindings. All files share one database, so each test uses its own tenant
 * and names.
 */
function ofApp(name: string, files: { include: string[]; exclude?: string[] }): TestProjectConfiguration {
  return {
    plugins: [
      withMutants(mutants),
      fromSources,
      asDeployed,
      cloudflareTest({
        wrangler: { configPath: "wrangler.jsonc" },
        miniflare: {
          queueConsumers,
          bindings: {
            TEST_MIGRATIONS: migrations,
            MILLRACE_KEY: "test",
            MILLRACE_DEVELOPMENT: "true",
            EMBEDDED_CONTROL: "true",
            WEBHOOKS_ALLOW_LOCAL: "true",
            // One second would be too short on a busy machine, because a delivery is repeated if the response is late.
            WEBHOOKS_TIMEOUT_SECONDS: "5",
            SEARCH_CENTS: "3",
            TEXT_CENTS: "20",
          },
        },
      }),
    ],
    define: { MILLRACE_CRASH_POINTS: "true", MILLRACE_FULL_SIZE: String(process.env.MILLRACE_FULL_SIZE === "true") },
    test: {
      name,
      isolate: false,
      ...files,
      setupFiles: ["test/migrate.ts", "test/hold-counts.ts", "test/systems/crm/quiet.ts"],
      globalSetup: [
        "test/systems/webhooks/global-setup.ts",
        "test/wordpress/global-setup.ts",
        "test/desk/global-setup.ts",
        "test/outside/global-setup.ts",
        "test/access/global-setup.ts",
      ],
      provide: { fuzz },
      testTimeout: 60_000,
      hookTimeout: 60_000,
    },
  };
}

// The tests of the projects `app`, `privacy`, `engine` and `raw` run in workerd with real bindings. Tests that start processes run in Node.
export default defineConfig({
  test: {
    // Shows the Worker's log lines of failed tests only.
    silent: process.env.MILLRACE_TEST_LOGS ? false : "passed-only",
    // Prints one line for each test file. The reporter test/gate/times.ts names the slowest files.
    slowTestThreshold: Number.POSITIVE_INFINITY,
    // The random order reveals tests that depend on an order. Vitest prints the order's seed, and `--sequence.seed` repeats the order of a
    // seed.
    sequence: { shuffle: { files: true, tests: true } },
    reporters: ["default", "./test/gate/times.ts"],
    // With mutants the module cache is off, because the cache would store mutated files or return files without the mutant.
    fsModuleCache: mutants.length === 0,
    projects: [
      ofApp("app", {
        include: [
          "test/{api,outside,app,providers,systems}/**/*.test.ts",
          "test/engine/schedules/**/*.test.ts",
          "test/docs/run/**/*.test.ts",
        ],
        exclude: ["test/systems/privacy/**"],
      }),
      // The privacy tests search all stored data, so they get a database without the data of other tests.
      ofApp("privacy", { include: ["test/systems/privacy/**/*.test.ts"] }),
      {
        plugins: [
          withMutants(mutants),
          fromSources,
          asDeployed,
          shorterWaits(),
          cloudflareTest({
            wrangler: { configPath: "test/probe/wrangler.jsonc" },
            miniflare: { bindings: { TEST_MIGRATIONS: probeMigrations, MILLRACE_DEVELOPMENT: "true" } },
          }),
        ],
        // With MILLRACE_FULL_SIZE=true, test/engine/keeper/urgency.test.ts runs with the full number of rows.
        define: {
          MILLRACE_CRASH_POINTS: "true",
          MILLRACE_FULL_SIZE: String(process.env.MILLRACE_FULL_SIZE === "true"),
          MILLRACE_SLOW_PLATFORM: String(isSlow),
        },
        test: {
          name: "engine",
          isolate: false,
          include: ["test/{engine,proof}/**/*.test.ts"],
          // The schedule tests send the app's commands, so they belong to the project app.
          exclude: ["test/engine/schedules/**"],
          setupFiles: ["test/migrate.ts", "test/platform-limits.ts", "test/hold-counts.ts"],
          globalSetup: ["test/upstream/global-setup.ts", "test/systems/webhooks/global-setup.ts", "test/collector/global-setup.ts"],
          provide: { proof },
          testTimeout: isSlow ? 240_000 : 60_000,
          // The setup before the first test, and the cleanup after a test, can take long on a busy machine.
          hookTimeout: 60_000,
        },
      },
      // The project `cells` tests a Worker with several databases.
      {
        plugins: [
          fromSources,
          asDeployed,
          cloudflareTest({
            wrangler: { configPath: "test/cells/wrangler.jsonc" },
            miniflare: { bindings: { TEST_MIGRATIONS: probeMigrations } },
          }),
        ],
        define: { MILLRACE_CRASH_POINTS: "true" },
        test: { name: "cells", include: ["test/cells/**/*.test.ts"], testTimeout: 60_000, hookTimeout: 60_000 },
      },
      // The project `raw` tests a chain of steps on plain Workflows. The documentation compares the engine with this chain.
      {
        plugins: [
          fromSources,
          cloudflareTest({
            wrangler: { configPath: "test/docs/raw/wrangler.jsonc" },
            miniflare: { bindings: { TEST_MIGRATIONS: await readD1Migrations("test/docs/raw/migrations") } },
          }),
        ],
        test: {
          name: "raw",
          include: ["test/docs/raw/**/*.test.ts"],
          setupFiles: ["test/migrate.ts"],
          globalSetup: ["test/desk/global-setup.ts"],
          testTimeout: 60_000,
        },
      },
      {
        plugins: [fromSources],
        test: {
          name: "node",
          // A separate process for each test file would cost a third of a second of CPU time.
          isolate: false,
          include: ["test/{cli,console,demo,examples,house,chaos,gate,sockets}/**/*.test.ts", "test/docs/static/**/*.test.ts"],
          // The engines that these tests start use V8's default flags, like the engine of a user.
          env: { [V8_FLAGS]: "" },
          globalSetup: ["test/console/global-setup.ts"],
          testTimeout: 180_000,
          hookTimeout: 60_000,
          // A polling assertion waits up to 30 s, because processes and pages are slow on a busy machine.
          expect: { poll: { timeout: 30_000 } },
        },
      },
    ],
  },
});
