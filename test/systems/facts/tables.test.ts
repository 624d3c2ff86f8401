import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { budgetOf } from "../../../src/systems/facts/derived/budgets.ts";
import { Tables } from "../../../src/systems/object-tables.ts";
import { fresh } from "../../api/client.ts";

const SCHEMA = "CREATE TABLE IF NOT EXISTS things (id INTEGER PRIMARY KEY) STRICT;";
const NAME = "ALTER TABLE things ADD COLUMN name TEXT NOT NULL DEFAULT 'none'";
const SIZE = "ALTER TABLE things ADD COLUMN size INTEGER";

/** The storage of an object without writes. */
function inStorage<T>(act: (storage: DurableObjectStorage) => T): Promise<T> {
  return runInDurableObject(budgetOf(env, fresh("tenant"), "a"), (_, { storage }) => act(storage));
}

const things = ({ sql }: DurableObjectStorage) => sql.exec("SELECT * FROM things").toArray();

it("an object's table gains a column in the next deployment, keeps its rows, and is changed once", async () => {
  const seen = await inStorage((storage) => {
    new Tables(storage, "things", SCHEMA).make();
    storage.sql.exec("INSERT INTO things (id) VALUES (1)");
    new Tables(storage, "things", SCHEMA, [NAME]);
    storage.sql.exec("UPDATE things SET name = 'ada'");
    // Adding the same column twice would be refused.
    for (let wakes = 0; wakes < 2; wakes++) new Tables(storage, "things", SCHEMA, [NAME]);
    const first = things(storage);
    for (let wakes = 0; wakes < 2; wakes++) new Tables(storage, "things", SCHEMA, [NAME, SIZE]);
    return [first, things(storage)];
  });
  expect(seen).toEqual([[{ id: 1, name: "ada" }], [{ id: 1, name: "ada", size: null }]]);
});

it("an object that is created later has all changes of its tables, and an object that is only read has no table", async () => {
  const seen = await inStorage((storage) => {
    const tables = new Tables(storage, "things", SCHEMA, [NAME, SIZE]);
    const before = [tables.made, storage.sql.exec("SELECT name FROM sqlite_master").toArray()];
    tables.make();
    storage.sql.exec("INSERT INTO things (id) VALUES (1)");
    return [before, things(storage)];
  });
  expect(seen).toEqual([[false, []], [{ id: 1, name: "none", size: null }]]);
});

it("a failed change of an object's table prevents all others of its deployment, and the next deployment makes them all", async () => {
  const seen = await inStorage((storage) => {
    new Tables(storage, "things", SCHEMA).make();
    storage.sql.exec("INSERT INTO things (id) VALUES (1)");
    expect(() => new Tables(storage, "things", SCHEMA, [NAME, "ALTER TABLE nowhere ADD COLUMN x"])).toThrow();
    const after = things(storage);
    new Tables(storage, "things", SCHEMA, [NAME, SIZE]);
    return [after, things(storage)];
  });
  expect(seen).toEqual([[{ id: 1 }], [{ id: 1, name: "none", size: null }]]);
});

it("a budget of an earlier deployment continues unchanged", async () => {
  const budget = budgetOf(env, fresh("tenant"), "a");
  await runInDurableObject(budget, (_, { storage }) => {
    storage.sql.exec(`
      CREATE TABLE budget (id INTEGER PRIMARY KEY, limit_cents INTEGER, spent INTEGER NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0,
        set_by TEXT, set_at INTEGER) STRICT;
      INSERT INTO budget (id, limit_cents, spent, held) VALUES (1, 1000, 100, 200);
      CREATE TABLE holds (hold TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, amount INTEGER NOT NULL, state TEXT NOT NULL, until INTEGER NOT NULL)
        STRICT, WITHOUT ROWID;`);
    storage.sql.exec("INSERT INTO holds VALUES ('old', 'rent', 200, 'held', ?)", Date.now() + 60_000);
  });
  await evictDurableObject(budget);
  expect(await budget.state()).toMatchObject({ limit_cents: 1000, spent_cents: 100, held_cents: 200 });
  expect(await budget.ask({ key: "rent", amount_cents: 200, expires_in_seconds: 60 })).toMatchObject({ hold: "old", replayed: true });
  expect(await budget.ask({ key: "more", amount_cents: 700, expires_in_seconds: 60 })).toMatchObject({ granted: true });
  expect(await budget.state()).toMatchObject({ held_cents: 900, remaining_cents: 0 });
});
