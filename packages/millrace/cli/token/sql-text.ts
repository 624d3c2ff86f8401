import type { Statement } from "millrace";

/** Converts statements to one SQL string without parameters, for wrangler. */
export function asText(...statements: readonly Statement[]): string {
  return statements
    .map(({ text, params }) => text.trim().replaceAll(/\?(\d+)/g, (_, place) => literal(params[Number(place) - 1])))
    .join("; ");
}

/** Converts a string to a hex literal, so that no shell or parser interprets a quote or semicolon in the string. */
function literal(value: Statement["params"][number] | undefined): string {
  if (typeof value !== "string") return String(value ?? "NULL");
  return PLAIN.test(value) ? `'${value}'` : `CAST(x'${Buffer.from(value, "utf8").toString("hex")}' AS TEXT)`;
}

const PLAIN = /^[a-z0-9_ ]*$/;
