import { applyD1Migrations, type D1Migration } from "cloudflare:test";
import { env } from "cloudflare:workers";

const known = globalThis as { millraceMigrated?: Promise<void> };

// Once per runtime: the files that share it share the database.
known.millraceMigrated ??= applyD1Migrations(env.DB, (env as unknown as { TEST_MIGRATIONS: D1Migration[] }).TEST_MIGRATIONS);
await known.millraceMigrated;
