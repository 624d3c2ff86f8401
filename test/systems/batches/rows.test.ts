import { parse } from "csv-parse/sync";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cutCsv, fromCell, toCsv } from "../../../src/systems/batches/csv.ts";
import type { Cut, Piece } from "../../../src/systems/batches/cut.ts";
import { cutJsonl } from "../../../src/systems/batches/jsonl.ts";
import { MAX_ROW_BYTES } from "../../../src/systems/batches/limits.ts";
import { howMany } from "../../full-size.ts";

const encoder = new TextEncoder();
const HUGE = "x".repeat(MAX_ROW_BYTES + 1);

/** The rows of a whole file, read with the number of chunks that the bounds give; its windows have the minimum size. */
function read<Content>(
  file: Uint8Array,
  bounds: { bytes: number; rows: number },
  cut: (window: { bytes: Uint8Array; line: number; atEnd: boolean }, bounds: { bytes: number; rows: number }) => Cut<Content>,
): Omit<Piece<Content>, "start" | "end">[] {
  const pieces: Omit<Piece<Content>, "start" | "end">[] = [];
  let at = 0;
  let line = 1;
  let skipping = false;
  while (at < file.length) {
    const bytes = file.subarray(at, at + bounds.bytes + MAX_ROW_BYTES + 2);
    if (skipping) {
      const newline = bytes.indexOf(10);
      at += newline === -1 ? bytes.length : newline + 1;
      skipping = newline === -1;
      if (!skipping) line++;
      continue;
    }
    const found = cut({ bytes, line, atEnd: at + bytes.length === file.length }, bounds);
    expect(found.at).toBeGreaterThan(0);
    pieces.push(...found.pieces.map(({ start: _start, end: _end, ...piece }) => piece));
    at += found.at;
    line = found.line;
    skipping = found.skipping;
  }
  return pieces;
}

const csv = (file: string | Uint8Array, width: number, bounds = { bytes: 262_144, rows: 1000 }, delimiter = ",") =>
  read(typeof file === "string" ? encoder.encode(file) : file, bounds, (window, at) => cutCsv(window, { delimiter, width }, at));
const jsonl = (file: string | Uint8Array, bounds = { bytes: 262_144, rows: 1000 }) =>
  read(typeof file === "string" ? encoder.encode(file) : file, bounds, cutJsonl);

const bounds = fc.record({ bytes: fc.integer({ min: 1, max: 60 }), rows: fc.integer({ min: 1, max: 5 }) });
const cell = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.constantFrom('"', '""', "\n", "\r\n", "a\rb", ",", ";", " x ", "é", "😀", "'", "=1+1"),
);
const text = cell.filter((value) => !value.includes("\0"));

describe("A CSV file", () => {
  it("a CSV file is read back unchanged, for any boundaries of its chunks", () => {
    const tables = fc
      .integer({ min: 2, max: 4 })
      .chain((width) => fc.tuple(fc.constant(width), fc.array(fc.array(text, { minLength: width, maxLength: width }), { maxLength: 12 })));
    fc.assert(
      fc.property(tables, bounds, fc.boolean(), ([width, rows], at, endsBare) => {
        const file = toCsv(rows, "keep");
        const pieces = csv(endsBare ? file.replace(/\n$/, "") : file, width, at);
        expect(pieces.map(({ content }) => content)).toEqual(rows);
      }),
      { numRuns: howMany(100, 300) },
    );
  });

  it("a CSV file with escaped formulas is read back unchanged, and contains no formula for any separator", () => {
    const signs = fc.constantFrom(...`'"=+-@＝＋－＠,;\t\r\n x`);
    const risky = fc.oneof(fc.string({ unit: signs, maxLength: 8 }), text);
    const tables = fc
      .integer({ min: 2, max: 4 })
      .chain((width) => fc.tuple(fc.constant(width), fc.array(fc.array(risky, { minLength: width, maxLength: width }), { maxLength: 6 })));
    fc.assert(
      fc.property(tables, ([width, rows]) => {
        const file = toCsv(rows, "escape");
        const read = csv(file, width).map(({ content }) => content?.map((one) => fromCell(one, "escape")));
        expect(read).toEqual(rows);
        const cells = (parse(file, { relax_column_count: true }) as string[][]).flat();
        // A spreadsheet with the separator semicolon or tab splits at both and at line ends, and removes quotes.
        const foreign = file.split(/[;\t\r\n]/).map((piece) => piece.replace(/^"+/, ""));
        expect([...cells, ...foreign].filter((one) => /^[=+\-@＝＋－＠]/.test(one))).toEqual([]);
      }),
      { numRuns: howMany(500, 20_000) },
    );
  });

  it("a CSV file with any content has the same rows and problems, for any boundaries of its chunks", () => {
    const scraps = fc.array(
      fc.constantFrom("a,b\n", "a\n", '"a', '"', ",", "\n", "\r\n", 'x"y,z\n', '"q" r,s\n', "1,2\n", '"m\nn",o\n', "é", "\0", ";"),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(scraps, bounds, (parts, at) => {
        const file = parts.join("");
        expect(csv(file, 2, at)).toEqual(csv(file, 2));
      }),
      { numRuns: howMany(150, 500) },
    );
  });

  it.each([
    [
      "a quote that is never closed",
      '1,"two\n3,4\n5,6\n',
      [
        [1, "has an unclosed quote"],
        [2, ["3", "4"]],
        [3, ["5", "6"]],
      ],
    ],
    [
      "a quote that a later row closes",
      '1,"two\n3,"4"\n5,6\n',
      [
        [1, /after a closing quote/],
        [2, ["3", "4"]],
        [3, ["5", "6"]],
      ],
    ],
    [
      "a quote that a later row's quote closes cleanly",
      '1,"two\n3,4,"\n5,6\n',
      [
        [1, ["1", "two\n3,4,"]],
        [3, ["5", "6"]],
      ],
    ],
    [
      "a quote that swallows a row into too few columns",
      '"1,two\n3,4"\n5,6\n',
      [
        [1, "has 1 columns instead of 2"],
        [2, /inside a cell/],
        [3, ["5", "6"]],
      ],
    ],
    [
      "a quote in the middle of a cell",
      'a"b,2\n5,6\n',
      [
        [1, /inside a cell/],
        [2, ["5", "6"]],
      ],
    ],
    [
      "too many and too few columns",
      "1,2,3\n1\n5,6\n",
      [
        [1, "has 3 columns instead of 2"],
        [2, "has 1 columns instead of 2"],
        [3, ["5", "6"]],
      ],
    ],
    [
      "blank lines and both line ends",
      "1,2\r\n\r\n\n5,6\n7,8\r\n",
      [
        [1, ["1", "2"]],
        [4, ["5", "6"]],
        [5, ["7", "8"]],
      ],
    ],
    [
      "newlines in quotes",
      '"1\n1",2\n"3\r\n3",4',
      [
        [1, ["1\n1", "2"]],
        [3, ["3\r\n3", "4"]],
      ],
    ],
    [
      "a NUL",
      "1,\0\n5,6\n",
      [
        [1, /NUL/],
        [2, ["5", "6"]],
      ],
    ],
    [
      "a huge line",
      `1,${HUGE}\n5,6\n`,
      [
        [1, /larger than 65536/],
        [2, ["5", "6"]],
      ],
    ],
    [
      "a line larger than any window",
      `1,${HUGE.repeat(12)}\n5,6\n`,
      [
        [1, /larger than 65536/],
        [2, ["5", "6"]],
      ],
    ],
    [
      "a quote that is never closed before a long file",
      `1,"two\n${"3,4\n".repeat(50_000)}`.slice(0, -4),
      [
        [1, /never closed/],
        [2, ["3", "4"]],
      ],
    ],
  ] as const)("a CSV file with %s loses no other row", (_, file, expected) => {
    const pieces = csv(file, 2);
    for (const [index, [line, said]] of expected.entries()) {
      const piece = pieces[index];
      expect(piece?.line).toBe(line);
      if (Array.isArray(said)) expect(piece?.content).toEqual(said);
      else expect(piece?.problem).toMatch(said as string | RegExp);
    }
    expect(pieces).toHaveLength(file.startsWith('1,"two\n3,4\n3,4') ? 50_000 : expected.length);
  });

  it("a CSV file with bytes that are not UTF-8 is reported with the line", () => {
    const pieces = csv(new Uint8Array([...encoder.encode("1,2\n3,"), 0xff, 0xfe, ...encoder.encode("\n5,é\n")]), 2);
    expect(pieces).toMatchObject([{ content: ["1", "2"] }, { line: 2, problem: expect.stringMatching(/UTF-8/) }, { content: ["5", "é"] }]);
  });
});

describe("A JSON Lines file", () => {
  it("a JSON Lines file is read back unchanged, for any boundaries of its chunks", () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue(), { maxLength: 12 }), bounds, fc.constantFrom("\n", "\r\n", "\n\n"), (values, at, end) => {
        const file = values.map((value) => JSON.stringify(value) + end).join("");
        expect(jsonl(file, at).map(({ content }) => JSON.parse(content ?? ""))).toEqual(JSON.parse(JSON.stringify(values)));
      }),
      { numRuns: howMany(100, 300) },
    );
  });

  it("a JSON Lines file with a huge line reports that line and continues", () => {
    const pieces = jsonl(`{"a":1}\n"${HUGE.repeat(12)}"\n{"a":2}`);
    expect(pieces).toMatchObject([
      { content: '{"a":1}' },
      { line: 2, problem: expect.stringMatching(/larger/) },
      { line: 3, content: '{"a":2}' },
    ]);
  });
});
