import { texts, traces } from "millrace";
import { bodies, engineProblems, needs, pages, times, traceContext } from "millrace/http";
import * as z from "zod";
import { FACT_TYPES, type Provenance, type StatedFact, statedFactSchema, traceFields } from "../messages/fact.ts";
import type { Appended } from "../systems/facts/ledger/forgotten-facts.ts";
import { appendEach, reusedName } from "../systems/facts/ledger/ledgers.ts";
import { type FactRow, listFacts, readCursor } from "../systems/facts/rows.ts";
import { operation } from "./operation.ts";
import { PROBLEMS } from "./problems.ts";

const MAX_FACTS = 100;
/** Maximum size of a request: a hundred facts of the largest size, with the surrounding JSON. */
const MAX_BYTES = 4 * 1024 * 1024;

const heading = {
  correlation_id: texts
    .chosenName(200)
    .optional()
    .meta({ description: "The correlation id of the job that these facts belong to; default: a new id." }),
  causation_id: texts.chosenName(300).optional().meta({ description: "The causation id of the facts; default: this request." }),
};
/**
 * The schema of the request body in the OpenAPI document. Each fact is validated separately, so that an invalid fact does not cause the
 * refusal of other facts.
 */
const statementSchema = z.strictObject({ facts: z.array(statedFactSchema).min(1).max(MAX_FACTS), ...heading });
const unreadSchema = z.strictObject({ facts: z.array(z.unknown()).min(1).max(MAX_FACTS), ...heading });

const AppendResultSchema = z
  .union([
    z.object({
      status: z.int().meta({ description: "The status is 201 for an appended fact, 200 for a known one." }),
      fact_id: z.string(),
      entity: z.string(),
      sequence: z.int().meta({ description: "The fact's position in its ledger." }),
      duplicate: z.boolean(),
    }),
    z.object({ status: z.int(), problem: engineProblems.schema }),
  ])
  .meta({ id: "AppendResult" });

/** The schema of a fact in all responses. */
export const factShape = {
  fact_id: z.string(),
  entity: z.string(),
  sequence: z.int(),
  type: z.enum(FACT_TYPES),
  subtype: z.string().nullable(),
  occurred_at: times.timestamp.meta({ description: "The time of the event, as the sender states it." }),
  recorded_at: times.timestamp.meta({ description: "The time when the ledger recorded the fact, by the ledger's clock." }),
  trace_id: z.string(),
  correlation_id: z.string(),
  causation_id: z.string(),
  payload: z.unknown(),
};

const ProjectedFactSchema = z
  .object({
    ...factShape,
    projected_at: times.timestamp.meta({ description: "The time when the fact's row was written, by the database's clock." }),
  })
  .meta({ id: "ProjectedFact" });

export const facts = [
  operation("post", "/v1/facts", "stateFacts", "facts state", {
    summary: "Append up to 100 facts to their ledgers",
    description: [
      "Returns one result per fact, in order. A fact with the status 201 is durable and will reach the projection and its consumers.",
      "`fact_id` identifies the fact within a ledger. A repeated fact is a duplicate without effect; one with other content is refused.",
    ].join("\n\n"),
    ...needs("enqueue"),
    headers: traceContext.headers,
    content: { "application/json": { schema: statementSchema } },
    answer: ["One result per fact, in order", z.object({ correlation_id: z.string(), results: z.array(AppendResultSchema) })],
    async run({ env, by, context: { req } }) {
      const body = await bodies.read(req, unreadSchema, {
        maxBytes: MAX_BYTES,
        items: { key: "facts", most: MAX_FACTS, at: pathOf },
      });
      const from: Provenance = {
        tenant_id: by.tenantId,
        ...traceFields(traces.nextHop(traceContext.of(req) ?? {})),
        correlation_id: body.correlation_id ?? crypto.randomUUID(),
        causation_id: body.causation_id ?? `request/${crypto.randomUUID()}`,
      };
      const answered = await appendEach(env, from, body.facts, { pathOf, outside: true });
      // Each valid fact has a result without an error.
      const results = answered.map((answer, index) => resultOf(body.facts[index] as StatedFact, index, answer));
      return { correlation_id: from.correlation_id, results };
    },
  }),
  operation("get", "/v1/facts", "listFacts", "facts list", {
    summary: "List facts from the projection, newest first",
    description: "A page filtered by type, trace or job scans 5,000 facts. Such a page may be short or empty and still have a next page.",
    query: {
      entity: z.string().min(1).max(200).optional(),
      type: z.enum(FACT_TYPES).optional(),
      trace: z
        .string()
        .regex(/^[0-9a-f]{32}$/, "must be a trace id: 32 hex characters")
        .optional(),
      correlation: z.string().min(1).max(200).optional(),
      before: z.iso
        .datetime({ offset: true })
        .optional()
        .meta({ description: "Returns only facts recorded before this time, to find an older job or trace." }),
      ...pages.query,
      cursor: pages.timeCursor((cursor) => readCursor(cursor)?.recorded_at),
    },
    answer: ["A page of facts", pages.schema(ProjectedFactSchema)],
    async run({ env, by, query: { cursor, limit, before, ...filter } }) {
      const asked = { ...filter, before: before === undefined ? undefined : Date.parse(before) };
      return pages.of(await listFacts(env.DB, by.tenantId, asked, { cursor, limit }), rowView);
    },
  }),
];

function pathOf(index: number): string {
  return `facts.${index}`;
}

function resultOf(fact: StatedFact, index: number, answer: Appended | Error): z.infer<typeof AppendResultSchema> {
  if (answer instanceof Error) return refused(answer);
  if (answer.outcome === "differs") return refused(reusedName(fact, `${pathOf(index)}.fact_id`));
  const duplicate = answer.outcome === "duplicate";
  return { status: duplicate ? 200 : 201, fact_id: fact.fact_id, entity: fact.entity, sequence: answer.sequence, duplicate };
}

function refused(error: Error): z.infer<typeof AppendResultSchema> {
  const problem = engineProblems.of(error, PROBLEMS);
  return { status: problem.status, problem };
}

function rowView(row: FactRow): z.infer<typeof ProjectedFactSchema> {
  return {
    ...row,
    occurred_at: times.iso(row.occurred_at),
    recorded_at: times.iso(row.recorded_at),
    projected_at: times.iso(row.projected_at),
    payload: JSON.parse(row.payload) as unknown,
  };
}
