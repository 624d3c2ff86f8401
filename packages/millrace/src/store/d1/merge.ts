import type { Statement } from "../../contract/sql.ts";
import type { Bindable } from "./bindable.ts";

/** Maximum bytes of the rows in one parameter. */
const MAX_ROWS_BYTES = 1_500_000;

/**
 * The statements of a whole group, and the positions of each unit's results. Row statements with the same text become one statement, or a
 * few statements if their rows are large.
 */
export function merge(group: readonly { readonly parts: readonly Bindable[] }[]): { statements: Statement[]; places: number[][] } {
  const statements: { text: string; params: Statement["params"]; rows?: string[]; bytes: number }[] = [];
  const open = new Map<string, number>();
  const place = ({ text, params, row, bytes }: Bindable): number => {
    if (row === undefined) return statements.push({ text, params, bytes }) - 1;
    const known = open.get(text);
    const shared = known === undefined ? undefined : statements[known];
    if (known !== undefined && shared && shared.bytes + bytes <= MAX_ROWS_BYTES) {
      shared.rows?.push(row);
      shared.bytes += bytes;
      return known;
    }
    const next = statements.push({ text, params, rows: [row], bytes }) - 1;
    open.set(text, next);
    return next;
  };
  const places = group.map((unit) => unit.parts.map(place));
  return { statements: statements.map(({ text, params, rows }) => ({ text, params: rows ? [`[${rows.join(",")}]`] : params })), places };
}
