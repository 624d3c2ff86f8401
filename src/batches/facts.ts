import { fragment, MillraceError, query, sql } from "../engine/index.ts";
import { type StatedFact, statedFactSchema } from "../facts/fact.ts";
import type { Appended } from "../objects/ledger.ts";
import { appendEach, provenanceOf } from "../objects/ledgers.ts";
import type { Dataset } from "./dataset.ts";
import { readJson } from "./jsonl.ts";
import { pageOf } from "./page.ts";

/**
 * Facts: an import appends them to their ledgers, an export reads their projection, ledger by ledger in the order of their places.
 * Times are brought to milliseconds, as the projection has them: a reconciliation compares times, not how they are written.
 */
export const facts: Dataset<StatedFact> = {
  name: "facts",
  columns: ["fact_id", "entity", "type", "subtype", "occurred_at", "payload"],
  required: ["fact_id", "entity", "type", "occurred_at", "payload"],
  open: false,
  // Every entity of a chunk is a call to its ledger.
  chunkRows: 200,
  schema: statedFactSchema.transform((fact) => ({ ...fact, occurred_at: new Date(fact.occurred_at).toISOString() })),
  compared: ["type", "subtype", "occurred_at", "payload"],
  fromCells: ({ subtype, payload = "", ...cells }) => ({ ...cells, ...(subtype && { subtype }), payload: readJson(payload, "payload: ") }),
  toCells: ({ fact_id, entity, type, subtype, occurred_at, payload }) => [
    fact_id,
    entity,
    type,
    subtype ?? "",
    occurred_at,
    JSON.stringify(payload),
  ],
  keyOf: ({ entity, fact_id }) => JSON.stringify([entity, fact_id]),
  take: async (env, { envelope }, rows) => {
    const answers = await appendEach(env, provenanceOf(envelope), rows, { outside: true });
    const refused = answers.flatMap((answer, place) => {
      const problem = problemOf(answer);
      return problem === undefined ? [] : [[place, problem] as const];
    });
    const isKnown = (answer: Appended | Error) => !(answer instanceof Error) && answer.outcome === "duplicate";
    return { skipped: answers.filter(isKnown).length, refused: new Map(refused) };
  },
  // The projection has no index by fact_id: each entity is read once, from front to back, whatever the number of its pairs.
  ours: async (db, tenantId, keys) => {
    const pairs = `[${keys.join(",")}]`;
    const found = await query<Stored>(
      db,
      sql`
        WITH pairs AS MATERIALIZED (SELECT value->>0 AS entity, value->>1 AS fact_id FROM json_each(${pairs}))
        SELECT f.fact_id, f.entity, f.type, f.subtype, f.occurred_at, f.payload FROM (SELECT DISTINCT entity FROM pairs) e
        CROSS JOIN facts f ON f.tenant_id = ${tenantId} AND f.entity = e.entity
        WHERE (f.entity, f.fact_id) IN (SELECT entity, fact_id FROM pairs)`,
    );
    return found.map(asStated);
  },
  page: async (db, tenantId, after) => {
    const [entity, sequence] = after === null ? ["", 0] : (JSON.parse(after) as [string, number]);
    const { rows, next } = await pageOf<Stored & { sequence: number }>(
      db,
      sql`
        SELECT fact_id, entity, sequence, type, subtype, occurred_at, payload, octet_length(payload) AS bytes FROM facts
        WHERE tenant_id = ${tenantId} AND (entity, sequence) > (${entity}, ${sequence})`,
      fragment("entity, sequence"),
      (row) => JSON.stringify([row.entity, row.sequence]),
    );
    return { rows: rows.map(asStated), next };
  },
};

/** Why a fact was not taken; undefined for one that was. A ledger that cannot be reached is nobody's row: its error has the chunk tried again. */
function problemOf(answer: Appended | Error): string | undefined {
  if (answer instanceof MillraceError && answer.code === "invalid_payload") {
    const [issue] = answer.detail.issues ?? [];
    return issue ? `${issue.path.replace(/^fact\./, "")}: ${issue.message}` : answer.message;
  }
  if (answer instanceof Error) throw answer;
  const { outcome, sequence } = answer;
  return outcome === "differs" ? `fact_id: is fact ${sequence} of this ledger already, which says something else` : undefined;
}

interface Stored {
  fact_id: string;
  entity: string;
  type: string;
  subtype: string | null;
  occurred_at: number;
  payload: string;
}

function asStated({ fact_id, entity, type, subtype, occurred_at, payload }: Stored): StatedFact {
  const at = new Date(occurred_at).toISOString();
  return { fact_id, entity, type, ...(subtype !== null && { subtype }), occurred_at: at, payload: JSON.parse(payload) } as StatedFact;
}
