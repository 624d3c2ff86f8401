import { atomically, query, type Statement, sql } from "millrace";
import { expect, it } from "vitest";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { app } from "../../probe/worker.ts";
import { fresh, probeEnv, reaches, rows } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";

/** An INSERT of this number of rows with two values each. */
const insert = (count: number) =>
  sql`INSERT INTO probe_rows (id, kind, name) VALUES ${Array.from({ length: count }, () => sql`(${fresh()}, 'many', ${"n"})`).reduce((all, one) => sql`${all}, ${one}`)}`;

/** Statements that the database refuses for any content of its tables, with a part of the error. */
const WRONG: [what: string, statement: Statement, says: string][] = [
  [
    "120 values",
    insert(60),
    "has 120 values (INSERT INTO probe_rows (id, kind, name) VALUES (?1, 'many', …); D1 accepts 100 in a statement: split it",
  ],
  ["a text over 100 KB", sql`SELECT ${sql.fragment(`'${"x".repeat(100_000)}'`)}`, "has 100009 bytes (SELECT 'xx"],
  ["a value over 2 MB", sql`SELECT ${"x".repeat(2_000_001)}`, "A value of 2000001 bytes was to be written"],
  ["a syntax error", sql`INSRT INTO probe_rows (id) VALUES (${"a"})`, 'refuses the statement: near "INSRT": syntax error.'],
  ["an unknown function", sql`SELECT sluggish(${"a"})`, "refuses the statement: no such function: sluggish."],
  ["too few values", sql`INSERT INTO probe_rows (id, kind, name) VALUES (${"a"})`, "refuses the statement: 1 values for 3 columns."],
  ["too many arguments", sql`SELECT abs(${1}, ${2})`, "refuses the statement: wrong number of arguments to function abs()."],
  [
    "an ambiguous column",
    sql`SELECT id FROM probe_rows a, probe_rows b WHERE a.id = ${"x"}`,
    "refuses the statement: ambiguous column name: id.",
  ],
  [
    "a conflict without an index",
    sql`INSERT INTO probe_rows (id, kind, name) VALUES (${"a"}, 'k', 'n') ON CONFLICT (name) DO NOTHING`,
    "refuses the statement: ON CONFLICT clause does not match any PRIMARY KEY or UNIQUE constraint.",
  ],
  [
    "BEGIN TRANSACTION",
    sql`BEGIN TRANSACTION`,
    "refuses the statement: BEGIN, COMMIT, ROLLBACK, SAVEPOINT and RELEASE are not for Workers",
  ],
  ["COMMIT", sql`COMMIT`, "The statements of one commit are one transaction without them."],
  ["SAVEPOINT", sql`SAVEPOINT a`, "refuses the statement: BEGIN, COMMIT"],
  ["PRAGMA journal_mode", sql`PRAGMA journal_mode=WAL`, "refuses the statement: not authorized. "],
  ["ATTACH", sql`ATTACH 'a' AS b`, "refuses the statement: not authorized. "],
  ["load_extension", sql`SELECT load_extension(${"x"})`, "refuses the statement: not authorized. "],
  ["VACUUM", sql`VACUUM`, "refuses the statement: cannot VACUUM from within a transaction."],
  ["an UPDATE of sqlite_master", sql`UPDATE sqlite_master SET name = ${"x"}`, "statement: table sqlite_master may not be modified."],
  ["a DROP of sqlite_master", sql`DROP TABLE sqlite_master`, "statement: table sqlite_master may not be dropped."],
  ["a table of a reserved name", sql`CREATE TABLE sqlite_x (a)`, "statement: object name reserved for internal use: sqlite_x."],
  ["RAISE outside a trigger", sql`SELECT RAISE(ABORT, 'x')`, "statement: RAISE() may only be used within a trigger-program."],
  ["a text as its LIMIT", sql`SELECT id FROM probe_rows LIMIT ${"abc"}`, "refuses the statement: datatype mismatch."],
  ["an index that does not exist", sql`SELECT id FROM probe_rows INDEXED BY nope WHERE id = ${"a"}`, 'The database has no index "nope".'],
  ["an ORDER BY out of range", sql`SELECT ${"a"} ORDER BY 5`, "statement: 1st ORDER BY term out of range - should be between 1 and 1."],
  [
    "an unknown ORDER BY",
    sql`SELECT 1 UNION SELECT 2 ORDER BY nope`,
    "statement: 1st ORDER BY term does not match any column in the result set.",
  ],
  ["no tables", sql`SELECT *`, "refuses the statement: no tables specified."],
  ["HAVING without an aggregate", sql`SELECT ${1} HAVING 1`, "statement: HAVING clause on a non-aggregate query."],
  ["a circular reference", sql`WITH a AS (SELECT * FROM a) SELECT * FROM a`, "refuses the statement: circular reference: a."],
  ["an unknown window", sql`SELECT first_value(1) OVER w`, "refuses the statement: no such window: w."],
];

it.concurrent.each(WRONG)(
  "a commit with %s fails its run at the first attempt, and no other run of its group",
  async (_, statement, says) => {
    const good = runLab(({ step }) => step.commit("note", () => ({ output: "noted" })));
    const { instanceId } = await runLab(({ step }) => step.commit("write", () => ({ statements: [statement] })));
    expect(await reaches(instanceId, "errored", "complete")).toBe("errored");
    expect(await errorOf(instanceId)).toMatchObject({ step: "write", attempts: 1, message: expect.stringContaining(says) });
    expect((await errorOf(instanceId))?.code).toMatch(/^(config_invalid|payload_too_large)$/);
    expect(await reaches((await good).instanceId, "errored", "complete")).toBe("complete");
  },
);

it("a statement with 100 values, whole numbers among them, and one of 97 KB are accepted", async () => {
  await query(probeEnv.DB, insert(50));
  const numbers = Array.from({ length: 99 }, (_, n) => sql`(${n * 1000})`).reduce((all, one) => sql`${all}, ${one}`);
  const long = sql`SELECT sum(column1) AS sum, length(${sql.fragment(`'${"x".repeat(94_000)}'`)}) AS length, ${"a"} AS a FROM (VALUES ${numbers})`;
  expect(await query(probeEnv.DB, long)).toEqual([{ sum: 4_851_000, length: 94_000, a: "a" }]);
});

it("a row that a constraint refuses is retried, because another write may make it valid", async () => {
  const id = fresh();
  await atomically(probeEnv.DB, [sql`INSERT INTO probe_rows (id, kind, name) VALUES (${id}, 'taken', 't')`]);
  let tries = 0;
  const { instanceId } = await runLab(({ step }) =>
    step.commit(
      "write",
      async () => {
        if (++tries === 2) await query(probeEnv.DB, sql`DELETE FROM probe_rows WHERE id = ${id}`);
        return { statements: [sql`INSERT INTO probe_rows (id, kind, name) VALUES (${id}, 'k', 'n')`] };
      },
      { retries: { limit: 2, delay: 10 } },
    ),
  );
  expect(await reaches(instanceId, "errored", "complete")).toBe("complete");
  expect(tries).toBe(2);
});

it("a request with 120 values in its statements is refused", async () => {
  const name = fresh("many");
  const asked = acceptCommands(
    probeEnv,
    app,
    { tenantId: "acme", source: "test" },
    [{ type: "lab.requested", payload: { name } }],
    [insert(60)],
  );
  await expect(asked).rejects.toMatchObject({ code: "config_invalid", message: expect.stringContaining("has 120 values") });
  expect(await rows("SELECT id FROM millrace_instances WHERE envelope->>'subject' = ?1", name)).toEqual([]);
});

it.each(["not authorized", "datatype mismatch", "no tables specified"])("an upstream's error with the text %s is retried", async (said) => {
  let asked = 0;
  const { instanceId } = await runLab(({ step }) =>
    step.read(
      "ask",
      async () => {
        if (++asked < 2) throw new Error(said);
        return asked;
      },
      { retries: { limit: 2, delay: 10 } },
    ),
  );
  expect(await reaches(instanceId, "errored", "complete")).toBe("complete");
});
