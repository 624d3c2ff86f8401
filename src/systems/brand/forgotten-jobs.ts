import type { Rewritten } from "millrace/operate";
import { type Person, Traces } from "../contacts/traces.ts";

/**
 * Columns of an agent's tables that may contain names of jobs or cycles, each with the key column of its table. Keywords name work and not
 * persons, so keywords remain.
 */
const TEXTS = [
  ["requests", "place", "correlation_id"],
  ["requests", "place", "causation_id"],
  ["requests", "place", "cycle"],
  ["decisions", "place", "cycle"],
  ["decisions", "place", "reason"],
  ["cycles", "instance_id", "answer"],
  ["audits", "instance_id", "answer"],
  ["trace_states", "instance_id", "tracestate"],
  ["cycle_runs", "place", "correlation_id"],
  ["cycle_runs", "place", "causation_id"],
  ["cycle_runs", "place", "tracestate"],
  ["cycle_runs", "place", "cycle"],
  ["cycle_keywords", "place", "cycle"],
  ["cycle_ends", "place", "cycle"],
] as const;

/**
 * The SQL expression of a row's state. For a request it is the state of the request. For a cycle it is `to_send` while the event about the
 * cycle's end is not sent.
 */
function stateOf(table: (typeof TEXTS)[number][0]): string {
  if (table === "requests") return "state";
  if (!table.startsWith("cycle_")) return "''";
  return `iif(EXISTS (SELECT 1 FROM cycle_ends e WHERE e.cycle = ${table}.cycle AND e.is_told = 0), 'to_send', '')`;
}

/**
 * Replaces a person's ids by pseudonyms in an agent's job names. A request that is in transit is not changed yet, because its command
 * contains the same name. A held request whose cycle contains the id is not changed yet, because the key of its command contains the cycle.
 * The end of a cycle is not changed before its event is sent. With `apply: false` the function only counts the names that it would replace.
 */
export function forgetInBrand(sql: SqlStorage, person: Person, apply: boolean): Rewritten {
  const traces = new Traces(person);
  const mentions = JSON.stringify(traces.mentions);
  const found = { changed: 0, waiting: 0, next: null };
  for (const [table, key, column] of TEXTS) {
    const said = sql.exec<{ key: SqlStorageValue; text: string; state: string }>(
      `SELECT ${key} AS key, ${column} AS text, ${stateOf(table)} AS state FROM ${table}
       WHERE EXISTS (SELECT 1 FROM json_each(?) m WHERE instr(lower(${column}), m.value) > 0)`,
      mentions,
    );
    for (const { key: of, text, state } of said.toArray()) {
      const rewritten = traces.rewrite(column, text);
      if (rewritten === text) continue;
      const isFree = state !== "to_send" && (state !== "held" || column !== "cycle");
      found[isFree ? "changed" : "waiting"]++;
      if (!apply || !isFree) continue;
      if (table === "trace_states") sql.exec("DELETE FROM trace_states WHERE instance_id = ?", of);
      // A later cycle of the same name has the same pseudonym, so its row replaces the row of the earlier cycle.
      else sql.exec(`UPDATE OR REPLACE ${table} SET ${column} = ? WHERE ${key} = ?`, rewritten, of);
    }
  }
  return found;
}
