import { atomically, query, sql } from "millrace";
import { describe, expect, it, onTestFinished } from "vitest";
import { mergeRows, type SqlValue } from "../../../packages/millrace/src/contract/sql.ts";
import { probeEnv } from "../harness.ts";

describe("Statements", () => {
  it("an SQL statement binds every interpolated value, and contains no text of the value", async () => {
    const value = "'); DROP TABLE millrace_instances; --";
    const statement = sql`SELECT ${value} AS said, ${7} AS number, ${null} AS none`;
    expect(statement).toEqual({ text: "SELECT ?1 AS said, ?2 AS number, ?3 AS none", params: [value, 7, null] });
    expect(await query(probeEnv.DB, statement)).toEqual([{ said: value, number: 7, none: null }]);
  });

  it("an SQL statement can contain nested statements, each with its own values", async () => {
    const inner = sql`(SELECT ${"b"} || ${"c"})`;
    const outer = sql`SELECT ${"a"} || ${inner} || ${"d"} || ${inner} AS text`;
    expect(outer.params).toEqual(["a", "b", "c", "d", "b", "c"]);
    expect(await query(probeEnv.DB, outer)).toEqual([{ text: "abcdbc" }]);
  });

  it("the tag `sql` accepts only literals of the source code as SQL text", () => {
    expect(sql`SELECT ${sql.now} AS now`.params).toEqual([]);
    expect(sql`SELECT 1 ${sql.fragment("AS one")}`.text).toBe("SELECT 1 AS one");
  });

  it.each([
    ["a date", new Date(0)],
    ["bytes", new Uint8Array(1)],
    ["a text that resembles a fragment", { fragment: "1; DROP TABLE millrace_instances" }],
    ["a text that resembles a statement", { text: "1; DROP TABLE millrace_instances", params: [] }],
  ])("an SQL statement cannot be built from %s", (_, value) => {
    expect(() => sql`SELECT ${value as unknown as SqlValue}`).toThrow(/bind text, numbers or null/);
  });
});

async function withTable(run: (rows: () => Promise<unknown>) => Promise<void>): Promise<void> {
  await probeEnv.DB.batch(
    [
      "CREATE TABLE bound (ref TEXT, n INTEGER, x REAL, done INTEGER NOT NULL DEFAULT 0, k TEXT)",
      "CREATE INDEX bound_by_ref ON bound (ref)",
      "CREATE INDEX bound_by_n ON bound (n, k)",
      "CREATE UNIQUE INDEX bound_open ON bound (k) WHERE done = 0",
    ].map((text) => probeEnv.DB.prepare(text)),
  );
  onTestFinished(async () => void (await probeEnv.DB.prepare("DROP TABLE bound").run()));
  await run(() => query(probeEnv.DB, sql`SELECT ref, typeof(n) AS n, typeof(x) AS x FROM bound ORDER BY rowid`));
}

describe("Whole numbers", () => {
  it("a whole number in a statement remains an integer in a division, a text and JSON, up to Number.MAX_SAFE_INTEGER", async () => {
    const most = Number.MAX_SAFE_INTEGER;
    expect(
      await query(
        probeEnv.DB,
        sql`SELECT ${7} / 2 AS half, 'order-' || ${7} AS text, 'order-' || ${70_000} AS longer, json_array(${1}, ${5000}) AS list, -${-3} AS plus,
          5-${-1} AS six, 5 -${-4000} AS more, 1=${1}AND 2>${1} AS yes, ${-0} || '' AS zero, ${most} || '' AS most, ${-most} || '' AS least,
          ${1.5} AS half_more, typeof(${2 ** 60}) AS beyond, ${true as unknown as number} || '' AS flag, 'a ${sql.fragment("?")} is text' AS mark`,
      ),
    ).toEqual([
      {
        half: 3,
        text: "order-7",
        longer: "order-70000",
        list: "[1,5000]",
        plus: 3,
        six: 6,
        more: 4005,
        yes: 1,
        zero: "0",
        most: "9007199254740991",
        least: "-9007199254740991",
        half_more: 1.5,
        beyond: "real",
        flag: "1",
        mark: "a ? is text",
      },
    ]);
  });

  it.each([42, 420_000])(
    "the number %d in a TEXT column is stored and found as the same text by every kind of statement",
    async (number) => {
      await withTable(async (rows) => {
        await query(probeEnv.DB, sql`INSERT INTO bound (ref, n, x) VALUES (${number}, ${number}, ${number})`);
        await atomically(probeEnv.DB, [
          {
            text: "INSERT INTO bound (ref, n, x) SELECT value->>'ref', value->>'ref', value->>'ref' FROM json_each(?1)",
            row: { ref: number },
          },
        ]);
        const row = { ref: String(number), n: "integer", x: "real" };
        expect(await rows()).toEqual([row, row]);
        expect(await query(probeEnv.DB, sql`SELECT 1 AS found FROM bound WHERE ref = ${number}`)).toHaveLength(2);
        expect(await query(probeEnv.DB, sql`SELECT 1 AS found FROM bound WHERE ref IN (${number}, ${"x"})`)).toHaveLength(2);
      });
    },
  );

  it.each([
    ["a TEXT column", sql`ref = ${42}`, "SEARCH bound USING INDEX bound_by_ref (ref=?)"],
    ["a TEXT column and a large number", sql`ref = ${420_000}`, "SEARCH bound USING INDEX bound_by_ref (ref=?)"],
    ["an INTEGER column", sql`n > ${420_000} ORDER BY n LIMIT ${5}`, "SEARCH bound USING INDEX bound_by_n (n>?)"],
    ["a list after a cursor", sql`(n, k) > (${420_000}, ${"x"})`, "SEARCH bound USING INDEX bound_by_n ((n,k)>(?,?))"],
    ["the condition of a partial index", sql`k = ${"x"} AND done = ${0}`, "SEARCH bound USING INDEX bound_open (k=?)"],
  ])("a bound number does not change the query plan for %s", async (_, condition, detail) => {
    await withTable(async () => {
      expect(await query(probeEnv.DB, sql`EXPLAIN QUERY PLAN SELECT * FROM bound WHERE ${condition}`)).toMatchObject([{ detail }]);
    });
  });

  it("ON CONFLICT of a statement can name a partial index", async () => {
    await withTable(async () => {
      const write = (ref: string) =>
        sql`INSERT INTO bound (k, ref) VALUES (${"x"}, ${ref}) ON CONFLICT (k) WHERE done = ${0} DO UPDATE SET ref = excluded.ref`;
      await query(probeEnv.DB, write("first"));
      await query(probeEnv.DB, write("second"));
      expect(await query(probeEnv.DB, sql`SELECT ref FROM bound`)).toEqual([{ ref: "second" }]);
    });
  });
});

describe("Rows", () => {
  it("rows with the same SQL text are sent as one statement, and repeated rows only once", () => {
    const rows = ["a", "b", "a"].map((id) => ({ text: "INSERT … json_each(?1)", row: { id } }));
    expect(mergeRows([...rows, { text: "other", row: { id: "a" } }])).toEqual([
      { text: "INSERT … json_each(?1)", params: ['[{"id":"a"},{"id":"b"}]'] },
      { text: "other", params: ['[{"id":"a"}]'] },
    ]);
  });

  it("large rows are sent as several statements, complete and in order", () => {
    const rows = Array.from({ length: 7 }, (_, id) => ({ id, text: "x".repeat(200_000) }));
    const chunks = sql.rows(rows);
    expect(chunks.length).toBe(4);
    expect(chunks.flatMap((chunk) => JSON.parse(chunk))).toEqual(rows);
  });

  it("an empty list of rows gives no statement", () => expect(sql.rows([])).toEqual([]));
});
