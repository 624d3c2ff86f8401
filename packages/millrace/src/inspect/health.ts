import type { EngineEnv } from "../contract/bindings.ts";
import { cellCount, cellsOf } from "../contract/cells.ts";
import { MillraceError } from "../contract/errors.ts";
import { sql } from "../contract/sql.ts";
import { beyond, highestCell, openCell } from "../store/cells.ts";
import { query } from "../store/d1/retry.ts";
import { ENGINE_SCHEMA, notApplied, type Schema, type SchemaRow } from "../store/schema.ts";

/** How long an isolate reuses a successful check. */
const TRUSTED_MS = 60_000;

const trusted = new WeakMap<D1Database, number>();

/**
 * Checks that the migrations of the engine and of the app are applied in all cells, and that each binding is the database of its cell.
 * Errors: `config_invalid` with the first mistake; an error of D1 if a database does not answer.
 */
export async function assertSchema(env: Pick<EngineEnv, "DB" | "CELL">, own: Schema = {}): Promise<void> {
  for (const { DB, CELL } of cellsOf(env)) {
    const rows = await query<SchemaRow>(DB, sql`SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'index')`);
    const missing = notApplied({ ...ENGINE_SCHEMA, ...own }, rows);
    if (missing !== undefined) throw lacking(missing, CELL);
    await openCell(env, CELL);
    trusted.set(DB, Date.now() + TRUSTED_MS);
  }
  const [cell, count] = [await highestCell(env), cellCount(env)];
  if (cell > count) throw new MillraceError("config_invalid", beyond("A tenant", cell, count));
}

function lacking({ migration, lacks }: NonNullable<ReturnType<typeof notApplied>>, CELL: number | undefined): MillraceError {
  return new MillraceError(
    "config_invalid",
    `The database${CELL === undefined ? "" : ` of cell ${CELL}`} lacks ${lacks}, which the migration ${migration} makes. Apply the migrations: npx millrace migrate --remote. For the engine of millrace dev: npx millrace migrate. For the engine of wrangler dev: npx millrace migrate --persist-to .wrangler/state`,
  );
}

/** At most one query per minute while all migrations are applied. */
export async function assertSchemaOnce(env: Pick<EngineEnv, "DB" | "CELL">, own: Schema): Promise<void> {
  if ((trusted.get(env.DB) ?? 0) <= Date.now()) await assertSchema(env, own);
}
