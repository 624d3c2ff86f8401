import type { Statement } from "millrace";

/** Statements as one text, for what takes no values beside it. */
export function asText(...statements: readonly Statement[]): string {
  return statements
    .map(({ text, params }) => text.trim().replaceAll(/\?(\d+)/g, (_, place) => literal(params[Number(place) - 1])))
    .join("; ");
}

/** A text goes in without a quote or semicolon that anybody on the way could take for theirs. */
function literal(value: Statement["params"][number] | undefined): string {
  if (typeof value !== "string") return String(value ?? "NULL");
  return PLAIN.test(value) ? `'${value}'` : `CAST(x'${Buffer.from(value, "utf8").toString("hex")}' AS TEXT)`;
}

const PLAIN = /^[a-z0-9_ ]*$/;
