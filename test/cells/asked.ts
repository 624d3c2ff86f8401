import { applyD1Migrations, env as bound, createExecutionContext, type D1Migration } from "cloudflare:test";
import { tokens as accessTokens } from "millrace/operate";
import { cellOf } from "millrace/worker";
import { expect } from "vitest";
import type { EngineEnv } from "../../packages/millrace/src/contract/bindings.ts";
import { cellsOf } from "../../packages/millrace/src/contract/cells.ts";
import { until } from "../until.ts";
import handler from "./worker.ts";

export const env = bound as unknown as EngineEnv & { TEST_MIGRATIONS: D1Migration[]; KEEPER: DurableObjectNamespace; DB_3: D1Database };
const SCOPES = ["enqueue", "read", "operate", "tokens", "observe"];
const tokens = new Map<string, string>();

/** Migrates the databases, and makes a token for each tenant. */
export async function prepare(tenants: readonly string[]): Promise<void> {
  for (const { DB } of cellsOf({ ...env, CELLS: 5 })) await applyD1Migrations(DB, env.TEST_MIGRATIONS);
  for (const tenant of tenants) know(tenant, await accessTokens.mint(env, { tenantId: tenant, actor: "ada", scopes: SCOPES }));
}

/** Lets `ask` use this token in the name of a caller. */
export function know(caller: string, token: string): void {
  tokens.set(caller, token);
}

/** The answer to a request in the name of a caller, by default a POST if the request has a body. */
export async function answer(caller: string, path: string, body?: object, given: object = env): Promise<Response> {
  const headers = { authorization: `Bearer ${tokens.get(caller)}`, "content-type": "application/json" };
  const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  return handler.fetch(new Request(`https://cells.test${path}`, init), given as never, createExecutionContext());
}

export async function ask<T>(caller: string, path: string, body?: object, given: object = env): Promise<T> {
  const answered = await answer(caller, path, body, given);
  const text = await answered.text();
  if (!answered.ok) throw new Error(`${path} was answered with ${answered.status}: ${text}`);
  return path === "/metrics" ? (text as T) : (JSON.parse(text) as T);
}

export const order = (tenant: string, id: string) => ask(tenant, "/v1/commands", { type: "order", payload: { id } });

export async function rows<T>({ DB }: Pick<EngineEnv, "DB">, sql: string, ...params: unknown[]): Promise<T[]> {
  const { results } = await DB.prepare(sql)
    .bind(...params)
    .all<T>();
  return results;
}

export const writtenBy = (cell: Pick<EngineEnv, "DB">, tenant: string, id: string) =>
  rows<{ kind: string }>(cell, "SELECT kind FROM probe_rows WHERE id LIKE ? ORDER BY kind", `%/${tenant}/${id}`);

/** Waits until an order and its event have written their rows into the database of the tenant's cell. */
export async function isPerformed(tenant: string, id: string): Promise<void> {
  const cell = await cellOf(env, tenant);
  const kinds = await until(
    () => writtenBy(cell, tenant, id),
    ({ length }) => length >= 2,
    20_000,
  );
  expect(kinds.map(({ kind }) => kind)).toEqual(["event", "order"]);
}

/** Removes tenants of cells that the Worker does not have from the directory. */
export const forgetFifth = () => env.DB.prepare("DELETE FROM millrace_cells WHERE cell > 4").run();

/** One of the tenants that lives in the cell with this number. */
export async function oneIn(cell: number, tenants: readonly string[]): Promise<string> {
  for (const tenant of tenants) if (((await cellOf(env, tenant)).CELL ?? 1) === cell) return tenant;
  throw new Error(`No tenant lives in the cell ${cell}.`);
}

/** Stores an open dead letter. */
export const letter = ({ DB }: Pick<EngineEnv, "DB">, reason: string) =>
  DB.prepare(
    `INSERT INTO millrace_dead_letters (id, queue, body, reason, attempts, first_at, captured_at)
    VALUES (?1, 'millrace', '{}', ?1, 1, unixepoch() * 1000, unixepoch() * 1000)`,
  )
    .bind(reason)
    .run();
