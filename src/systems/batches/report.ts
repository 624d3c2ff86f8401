import type { Batch } from "./batch.ts";
import { toCsv } from "./csv.ts";
import { DATASETS } from "./datasets.ts";
import type { Format } from "./layout.ts";
import { readParts } from "./parts.ts";

/** A row of the file that a batch refused. */
export interface Problem {
  /** The row's number in the file, from 1. */
  row: number;
  /** The row's first line in the file, from 1. */
  line: number;
  problem: string;
  /** The first characters of the row. */
  raw: string;
}

/** A row that differs between the file and the stored rows. */
export interface Finding {
  finding: "only_there" | "only_here" | "different";
  key: string;
  /** The row's number in the file; null for a row that is only in the database. */
  row: number | null;
  line: number | null;
  /** The names of the fields that differ between the file and the database. */
  fields: string[];
}

/** Returns rows as JSON Lines. */
export function toJsonl(rows: readonly object[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}

/** Returns refused rows as JSON Lines, without the inputs of the rows. */
export function problemsText(problems: readonly Problem[]): string {
  return toJsonl(problems.map(({ row, line, problem, raw }) => ({ row, line, problem, raw })));
}

/** Returns the findings of a reconciliation in the format of their report. */
export function findingsText({ format, formulas }: Batch, findings: readonly Finding[]): string {
  if (format === "jsonl") return toJsonl(findings);
  const cells = findings.map(({ finding, key, row, line, fields }) => [finding, key, row, line, fields.join(" ")]);
  return toCsv(cells, formulas);
}

/** Streams the result as one file: the rows of an export, or the findings of a reconciliation. */
export async function* resultFile(env: Pick<Cloudflare.Env, "DB" | "PAYLOADS">, batch: Batch): AsyncGenerator<string> {
  const columns = batch.operation === "export" ? (DATASETS.get(batch.dataset)?.columns ?? []) : ["finding", "key", "row", "line", "fields"];
  if (batch.format === "csv") yield toCsv([columns], "keep");
  yield* readParts(env, batch, "result");
}

/** Streams the refused rows of a batch as one file. The report contains cells of unknown origin, so formulas are always escaped. */
export async function* problemsFile(env: Pick<Cloudflare.Env, "DB" | "PAYLOADS">, batch: Batch, format: Format): AsyncGenerator<string> {
  if (format === "csv") yield toCsv([["row", "line", "problem", "raw"]], "keep");
  for await (const part of readParts(env, batch, "errors")) yield format === "jsonl" ? part : asCsv(part);
}

function asCsv(part: string): string {
  const problems = part
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Problem);
  return toCsv(
    problems.map(({ row, line, problem, raw }) => [row, line, problem, raw]),
    "escape",
  );
}
