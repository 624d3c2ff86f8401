import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";

const folders = ["node_modules/millrace/migrations", "migrations"];
const bindings = { TEST_MIGRATIONS: (await Promise.all(folders.map((folder) => readD1Migrations(folder)))).flat(), MILLRACE_KEY: "test" };

export default defineConfig({
  plugins: [cloudflareTest({ wrangler: { configPath: "wrangler.jsonc" }, miniflare: { bindings } })],
  // Compiles in the crash points that `dieAt` and `crashEverywhere` need.
  define: { MILLRACE_CRASH_POINTS: "true" },
  test: { testTimeout: 60_000 },
});
