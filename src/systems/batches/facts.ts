import { MillraceError } from "millrace";
import { type RecordedFact, type StatedFact, statedFactSchema } from "../../messages/fact.ts";
import type { Appended } from "../facts/ledger/forgotten-facts.ts";
import { appendEach, ledgerOf, provenanceOf } from "../facts/ledger/ledgers.ts";
import { type LedgerPlace, readLedgers } from "../facts/ledger/read-ledgers.ts";
import type { Dataset } from "./dataset.ts";
import { readJson } from "./jsonl.ts";
import { PAGE_BYTES, PAGE_ROWS } from "./limits.ts";

/**
 * The dataset of facts: an import appends them to their ledgers, an export reads the ledgers in a fixed order. Times are converted to
 * milliseconds, so that a reconciliation does not find a difference between two notations of the same time.
 */
export const facts: Dataset<StatedFact> = {
  name: "facts",
  columns: ["fact_id", "entity", "type", "subtype", "occurred_at", "payload"],
  required: ["fact_id", "entity", "type", "occurred_at", "payload"],
  open: false,
  // Each entity in a chunk causes a call to the entity's ledger.
  chunkRows: 200,
  schema: statedFactSchema.transform((fact) => ({ ...fact, occurred_at: new Date(fact.occurred_at).toISOString() })),
  compared: { type: null, subtype: null, occurred_at: null, payload: null },
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
  // Ledgers find facts by id, including facts that are not yet projected.
  ours: async (env, tenantId, keys) => {
    const pairs = keys.map((key) => JSON.parse(key) as [entity: string, factId: string]);
    const found = await Promise.all(
      [...Map.groupBy(pairs, ([entity]) => entity)].map(([entity, own]) =>
        ledgerOf(env, tenantId, entity).named(own.map(([, factId]) => factId)),
      ),
    );
    return found.flat().map((body) => asStated(JSON.parse(body)));
  },
  dated: true,
  page: async (env, tenantId, { after, asOf }) => {
    const from = after === null ? null : placeIn(after);
    const bounds = { ledgers: PAGE_ROWS, rows: PAGE_ROWS, bytes: PAGE_BYTES, recordedBy: asOf };
    const { parts, next } = await readLedgers(env, tenantId, from, bounds);
    return { rows: parts.flatMap(({ facts }) => facts.map(asStated)), next: next && JSON.stringify([next.entity, next.sequence]) };
  },
};

function placeIn(cursor: string): LedgerPlace {
  const [entity, sequence] = JSON.parse(cursor) as [string, number | null];
  return { entity, sequence };
}

/**
 * Returns the reason why a fact was refused; undefined if the fact was appended. An unreachable ledger is not an error of the row, so the
 * chunk is retried.
 */
function problemOf(answer: Appended | Error): string | undefined {
  if (answer instanceof MillraceError && answer.code === "invalid_payload") {
    const [issue] = answer.detail.issues ?? [];
    return issue ? `${issue.path.replace(/^fact\./, "")}: ${issue.message}` : answer.message;
  }
  if (answer instanceof Error) throw answer;
  const { outcome, sequence } = answer;
  return outcome === "differs" ? `fact_id: is fact ${sequence} of this ledger already, with other content` : undefined;
}

function asStated({ fact_id, entity, type, subtype, occurred_at, payload }: RecordedFact): StatedFact {
  const at = new Date(occurred_at).toISOString();
  return { fact_id, entity, type, ...(subtype !== undefined && { subtype }), occurred_at: at, payload } as StatedFact;
}
