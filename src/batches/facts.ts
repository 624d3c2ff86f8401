import { query, sql } from "../engine/index.ts";
import { type StatedFact, statedFactSchema } from "../facts/fact.ts";
import { appendFacts, provenanceOf } from "../objects/ledgers.ts";
import type { Dataset } from "./dataset.ts";
import { readJson } from "./jsonl.ts";

/**
 * Facts: an import appends them to their ledgers, an export reads their projection. Times are brought to milliseconds, as the
 * projection has them, so that an export that is imported again is known.
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
    const appended = await appendFacts(env, provenanceOf(envelope), rows);
    const refused = appended.flatMap(({ outcome, sequence }, place) =>
      outcome === "differs" ? [[place, `fact_id: is fact ${sequence} of this ledger already, which says something else`] as const] : [],
    );
    return { skipped: appended.filter(({ outcome }) => outcome === "duplicate").length, refused: new Map(refused) };
  },
  ours: async (db, tenantId, keys) => {
    const pairs = `[${keys.join(",")}]`;
    const found = await query<Stored>(
      db,
      sql`
        SELECT f.fact_id, f.entity, f.type, f.subtype, f.occurred_at, f.payload FROM json_each(${pairs}) k
        CROSS JOIN facts f ON f.tenant_id = ${tenantId} AND f.entity = k.value->>0 AND f.fact_id = k.value->>1`,
    );
    return found.map(asStated);
  },
  page: async (db, tenantId, after, limit) => {
    const [entity, factId] = after === null ? ["", ""] : (JSON.parse(after) as [string, string]);
    const found = await query<Stored>(
      db,
      sql`
        SELECT fact_id, entity, type, subtype, occurred_at, payload FROM facts
        WHERE tenant_id = ${tenantId} AND (entity, fact_id) > (${entity}, ${factId}) ORDER BY entity, fact_id LIMIT ${limit}`,
    );
    return found.map(asStated);
  },
};

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
