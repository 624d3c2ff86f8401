import { HttpRefusal, pages } from "millrace/http";
import * as z from "zod";
import type { RecordedFact } from "../messages/fact.ts";
import { readArchive } from "../systems/facts/archive.ts";
import { readLedger } from "../systems/facts/ledger/ledgers.ts";
import { factShape } from "./facts.ts";
import { operation } from "./operation.ts";

const LedgerFactSchema = z
  .object({
    ...factShape,
    traceparent: z.string().optional().meta({ description: "The W3C trace context of the fact's sender." }),
    tracestate: z.string().optional(),
    derived: z.object({ charge: z.string(), payout: z.string() }).optional().meta({
      description: "The names of the derived facts, if the fact's own name was replaced when a person was forgotten.",
    }),
  })
  .meta({ id: "LedgerFact" });

const LedgerSchema = z
  .object({
    entity: z.string(),
    first: z.int().meta({ description: "The position of the oldest fact that the ledger has kept." }),
    last: z.int().meta({ description: "The position of the newest fact in the ledger." }),
    kept: z.int(),
    unconfirmed: z
      .object({ projections: z.int(), "fact-processing": z.int() })
      .meta({ description: "Facts that the consumer of a queue has not confirmed yet." }),
    bytes: z.int().meta({ description: "The size of the ledger's storage. The platform's limit is 10 GB." }),
    items: z.array(LedgerFactSchema).meta({ description: "Returns facts after the position `after`, oldest first." }),
    next_after: z.int().nullable().meta({ description: "Pass this position as `after` for the next page; it is null on the last page." }),
  })
  .meta({ id: "Ledger" });

const pageOfLedger = {
  params: { entity: z.string().min(1).max(200).meta({ description: "URL-encoded.", example: "account%2Fa1" }) },
  query: {
    after: pages.wholeNumber(0).default(0),
    limit: pages.query.limit,
  },
  problems: ["ledger_not_found" as const],
};

const ArchiveSchema = z
  .object({
    entity: z.string(),
    items: z.array(LedgerFactSchema),
    next_after: z.int().nullable().meta({ description: "Pass this position as `after` for the next page; it is null on the last page." }),
  })
  .meta({ id: "LedgerArchive" });

export const ledgers = [
  operation("get", "/v1/ledgers/{entity}/archive", "getLedgerArchive", "ledgers archive", {
    summary: "Read the archive of a ledger in R2",
    description:
      "Facts move from their ledger to the archive after 400 days. A page covers one file of the archive: it may be short and still have a next page.",
    ...pageOfLedger,
    answer: ["A page of archived facts, oldest first; empty where there are none", ArchiveSchema],
    async run({ env, by: { tenantId }, param: { entity }, query }) {
      const { facts, next } = await readArchive(env.PAYLOADS, tenantId, entity, query);
      if (facts.length === 0) assertStated(entity, await readLedger(env, tenantId, entity, { after: 0, limit: 1 }));
      return { entity, items: facts.map(factView), next_after: next };
    },
  }),
  operation("get", "/v1/ledgers/{entity}", "getLedger", "ledgers show", {
    summary: "Get the ledger of an entity",
    description:
      "Reads the Durable Object of the entity, which is the source of truth. The ledger may contain facts that the projection does not have yet.",
    ...pageOfLedger,
    answer: ["The ledger, and a page of its facts", LedgerSchema],
    async run({ env, by, param: { entity }, query }) {
      const { facts, ...state } = await readLedger(env, by.tenantId, entity, query);
      assertStated(entity, state);
      const end = facts.at(-1)?.sequence;
      return { entity, ...state, items: facts.map(factView), next_after: end !== undefined && end < state.last ? end : null };
    },
  }),
];

function assertStated(entity: string, { last }: { last: number }): void {
  if (last === 0) throw new HttpRefusal("ledger_not_found", `There is no fact of ${entity}. GET /v1/facts lists all facts.`);
}

/** Returns a fact without its tenant, because the fact's tenant is always the caller's tenant. */
function factView({ tenant_id: _, subtype, ...fact }: RecordedFact) {
  return { ...fact, subtype: subtype ?? null };
}
