import "./packages/millrace/cli/local/lighter-start.ts";
import "./test/plain-talk.ts";
import { randomInt } from "node:crypto";
import { defineConfig, type Plugin, type TestProjectConfiguration } from "vitest/config";
import { builtConsole } from "./packages/millrace/cli/local/console.ts";
import { sourceDoors } from "./packages/millrace/cli/local/doors.ts";
import { readConfig } from "./packages/millrace/cli/wiring/config.ts";
import { keepInMemory } from "./test/in-memory.ts";
import { chosenMutants, withMutants } from "./test/proof/mutants/plugin.ts";
import { stepsWanted } from "./test/proof/steps-of-all.ts";
import { quickenPool } from "./test/quicker-pool.ts";
import { hideRuntimeNoise } from "./test/quiet.ts";
import { shorterWaits } from "./test/shorter-waits.ts";
import { roomForTheYoung, V8_FLAGS } from "./test/young-space.ts";

// Behind what lets a runtime start with less.
const { cloudflareTest, readD1Migrations } = await import("@cloudflare/vitest-pool-workers");

hideRuntimeNoise();
keepInMemory();
quickenPool();
roomForTheYoung();
await builtConsole();

const migrations = [...(await readD1Migrations("packages/millrace/migrations")), ...(await readD1Migrations("migrations"))];
const probeMigrations = [...migrations, ...(await readD1Migrations("test/probe"))];

/**
 * MILLRACE_PROOF_SEED=4711 MILLRACE_PROOF_SECONDS=600 npx vitest run --project engine test/proof/random.test.ts: these random programs, for so long.
 * With MILLRACE_FULL_SIZE=true, test/proof/sweep.test.ts tries every fault.
 */
const proof = {
  // A gate draws the same each time: what it finds shall be of the change that it looks at.
  seed: Number(process.env.MILLRACE_PROOF_SEED ?? (process.env.CI ? 4711 : randomInt(1_000_000))),
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
 * Hostile requests over every route, the same in every gate. MILLRACE_FUZZ_SEED=7 MILLRACE_FUZZ_INPUTS=100000 npx vitest run --project app
 * test/api/hostile/fuzz.test.ts: others, and more.
 */
const fuzz = { seed: Number(process.env.MILLRACE_FUZZ_SEED ?? 4711), inputs: Number(process.env.MILLRACE_FUZZ_INPUTS ?? 1500) };

/** MILLRACE_MUTANT="an undo runs in forward order" npx vitest run …: with that bug in the source, as it is loaded. See test/proof/mutants. */
const mutants = chosenMutants(process.env.MILLRACE_MUTANT);

/** The app's queues as they are configured, but that no batch waits for more: it goes out at once. */
const queueConsumers = Object.fromEntries(
  (readConfig("wrangler.jsonc").queues?.consumers ?? []).map(({ queue, max_batch_size, max_retries, dead_letter_queue }) => [
    queue,
    { maxBatchSize: max_batch_size, maxBatchTimeout: 0, maxRetries: max_retries, deadLetterQueue: dead_letter_queue },
  ]),
);

/** Imports of the package are of its sources. */
const fromSources: Plugin = {
  name: "millrace-from-sources",
  config: () => ({
    resolve: { alias: Object.entries(sourceDoors()).map(([door, file]) => ({ find: new RegExp(`^${door}$`), replacement: file })) },
  }),
};

/** Takes packages as they are deployed: vite's choice would be their builds for development, which check each of their own steps. */
const asDeployed: Plugin = {
  name: "packages-as-deployed",
  configResolved({ environments }) {
    for (const { resolve } of Object.values(environments))
      resolve.conditions = resolve.conditions.filter((one) => !one.startsWith("development"));
  },
};

/** Tests of the app, in workerd on real bindings. All files share one runtime and one database: a test has a tenant and names of its own, and ends what it began. */
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
            // A second is too little beside other suites: an answer that is late is a lost one, and its delivery is made again.
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

// Five projects: the app, in two runtimes, the engine and what it is compared with run in workerd on real bindings; what starts processes runs in Node.
export default defineConfig({
  test: {
    // The Worker's own log lines are shown for tests that fail.
    silent: process.env.MILLRACE_TEST_LOGS ? false : "passed-only",
    // One line a file; the gate names the slowest.
    slowTestThreshold: Number.POSITIVE_INFINITY,
    // Nothing leans on its neighbour. The seed is printed, and `--sequence.seed` repeats an order.
    sequence: { shuffle: { files: true, tests: true } },
    reporters: ["default", "./test/gate/times.ts"],
    // A bug that is put in must be neither kept for later runs nor left out because a cache holds the file without it.
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
      // It looks through all that is kept anywhere, which is little where no other test has kept anything.
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
        // MILLRACE_FULL_SIZE=true npx vitest run --project engine test/engine/keeper/urgency.test.ts: with as many rows as the promise names.
        define: { MILLRACE_CRASH_POINTS: "true", MILLRACE_FULL_SIZE: String(process.env.MILLRACE_FULL_SIZE === "true") },
        test: {
          name: "engine",
          isolate: false,
          include: ["test/{engine,proof}/**/*.test.ts"],
          // A schedule asks for what a deployment knows.
          exclude: ["test/engine/schedules/**"],
          setupFiles: ["test/migrate.ts", "test/hold-counts.ts"],
          globalSetup: ["test/upstream/global-setup.ts", "test/systems/webhooks/global-setup.ts", "test/collector/global-setup.ts"],
          provide: { proof },
          testTimeout: 60_000,
          // What is under way behind a test, or has to be before the first, takes as long as others leave it.
          hookTimeout: 60_000,
        },
      },
      // What a chain is compared with: the same promises on plain Workflows.
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
          // A process for each of its files would take a third of a second of a processor to start.
          isolate: false,
          include: ["test/{cli,console,demo,examples,house,chaos,gate,sockets}/**/*.test.ts", "test/docs/static/**/*.test.ts"],
          // The engines that these start are those of users.
          env: { [V8_FLAGS]: "" },
          globalSetup: ["test/console/global-setup.ts"],
          testTimeout: 180_000,
          hookTimeout: 60_000,
          // Processes and pages answer within this time, whatever else the machine does.
          expect: { poll: { timeout: 30_000 } },
        },
      },
    ],
  },
});
