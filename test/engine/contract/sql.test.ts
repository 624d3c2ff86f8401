import { fragment, now, query, rowChunks, type SqlValue, sql } from "millrace";
import { describe, expect, it } from "vitest";
import { mergeRows } from "../../../src/engine/contract/sql.ts";
import { probeEnv } from "../harness.ts";

describe("A statement", () => {
  it("binds whatever is interpolated, and takes no text of it", async () => {
    const value = "'); DROP TABLE instances; --";
    const statement = sql`SELECT ${value} AS said, ${7} AS number, ${null} AS none`;
    expect(statement).toEqual({ text: "SELECT ?1 AS said, ?2 AS number, ?3 AS none", params: [value, 7, null] });
    expect(await query(probeEnv.DB, statement)).toEqual([{ said: value, number: 7, none: null }]);
  });

  it("holds others in its midst, each with its own values", async () => {
    const inner = sql`(SELECT ${"b"} || ${"c"})`;
    const outer = sql`SELECT ${"a"} || ${inner} || ${"d"} || ${inner} AS text`;
    expect(outer.params).toEqual(["a", "b", "c", "d", "b", "c"]);
    expect(await query(probeEnv.DB, outer)).toEqual([{ text: "abcdbc" }]);
  });

  it("takes as text what is written here alone", () => {
    expect(sql`SELECT ${now} AS now`.params).toEqual([]);
    expect(sql`SELECT 1 ${fragment("AS one")}`.text).toBe("SELECT 1 AS one");
  });

  it.each([
    ["a date", new Date(0)],
    ["bytes", new Uint8Array(1)],
    ["what looks like a fragment", { fragment: "1; DROP TABLE instances" }],
    ["what looks like a statement", { text: "1; DROP TABLE instances", params: [] }],
  ])("refuses %s", (_, value) => {
    expect(() => sql`SELECT ${value as unknown as SqlValue}`).toThrow(/bind text, numbers or null/);
  });
});

describe("Rows", () => {
  it("of one text travel as one statement, a repeat once, and those of another apart", () => {
    const rows = ["a", "b", "a"].map((id) => ({ text: "INSERT … json_each(?1)", row: { id } }));
    expect(mergeRows([...rows, { text: "other", row: { id: "a" } }])).toEqual([
      { text: "INSERT … json_each(?1)", params: ['[{"id":"a"},{"id":"b"}]'] },
      { text: "other", params: ['[{"id":"a"}]'] },
    ]);
  });

  it("that are large travel as several, whole and in order", () => {
    const rows = Array.from({ length: 7 }, (_, id) => ({ id, text: "x".repeat(200_000) }));
    const chunks = rowChunks(rows);
    expect(chunks.length).toBe(4);
    expect(chunks.flatMap((chunk) => JSON.parse(chunk))).toEqual(rows);
  });

  it("that are none are no text", () => expect(rowChunks([])).toEqual([]));
});
