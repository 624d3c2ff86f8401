import { answers, createRoute, HttpRefusal, needs, pages, Routes, times } from "millrace/http";
import { keysetPage } from "millrace/operate";
import * as z from "zod";
import { brandName, cycle, priority } from "../messages/brand.ts";
import type { CycleView } from "../systems/brand/brand-agent.ts";
import { CYCLE_KEYWORD_STATES, type CycleRow } from "../systems/brand/cycles.ts";
import { VERDICTS } from "../systems/brand/decide.ts";
import { agentOf } from "./brand-agent.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

/** A cycle's name, state and times. */
export const cycleTimes = {
  cycle: z.string(),
  state: z.enum(["running", "done"]).meta({ description: "The state of the cycle: `done` once every keyword has an outcome." }),
  started_at: times.timestamp,
  ended_at: times.timestamp.nullable(),
};

const keywordCount = z.int();

const CycleSchema = z
  .object({
    ...cycleTimes,
    round: z
      .int()
      .meta({ description: "The number of rounds: it increases by one each time that keywords are added after the end of the cycle." }),
    priority,
    correlation_id: z.string(),
    counts: z
      .object({
        running: keywordCount,
        published: keywordCount,
        rejected: keywordCount,
        failed: keywordCount,
        skipped: keywordCount,
      })
      .meta({ description: "The number of keywords of the cycle by their present state." }),
    told: z.object({ published: keywordCount, rejected: keywordCount, failed: keywordCount, skipped: keywordCount }).nullable().meta({
      description:
        "The counts in the last `brand.cycle_ended` event of this cycle; null before the first. Later retries do not change these counts.",
    }),
  })
  .meta({ id: "BrandCycle" });

const CycleDetailSchema = CycleSchema.extend({
  keywords: z.array(
    z.object({
      keyword: z.string(),
      state: z.enum(CYCLE_KEYWORD_STATES),
      verdict: z.enum(VERDICTS).meta({ description: "The decision of the agent when the cycle began, or the later reason for its end." }),
      research_instance_id: z.string().nullable().meta({ description: "The id of the instance that researches the keyword." }),
      content_id: z.string().nullable().meta({ description: "The id of the keyword's article; null before it is written." }),
    }),
  ),
}).meta({ id: "BrandCycleDetail" });

const params = z.object({ brand: brandName });
const PATH = "/v1/brands/{brand}/cycles";
const REFUSALS = ["unauthorized", "forbidden", "invalid_payload", "brand_not_found"] as const;

const cycles = createRoute({
  method: "get",
  path: PATH,
  operationId: "listBrandCycles",
  command: "brands cycles",
  summary: "List the cycles of a brand, newest first",
  description: "Returns each cycle with the states of its keywords by number. Ended cycles are kept for 90 days.",
  ...needs("read"),
  request: { params, query: z.strictObject(pages.query) },
  responses: { 200: answers("A page of cycles", pages.schema(CycleSchema)), ...problems(...REFUSALS) },
});

const showCycle = createRoute({
  method: "get",
  path: `${PATH}/{cycle}`,
  operationId: "getBrandCycle",
  command: "brands cycle",
  summary: "Get a cycle of a brand",
  description:
    "Returns whether the cycle is done, and the state of each keyword. A cycle is done when each keyword is published, rejected, failed or skipped. The event `brand.cycle_ended` is sent once at that time.",
  ...needs("read"),
  request: { params: params.extend({ cycle }) },
  responses: { 200: answers("The cycle", CycleDetailSchema), ...problems(...REFUSALS, "cycle_not_found") },
});

export function brandCycles() {
  return new Routes<ApiEnv>()
    .openapi(cycles, async ({ env, req, var: { caller }, json }) => {
      const agent = await agentOf(env, caller.tenantId, req.valid("param").brand);
      const found = await keysetPage<CycleView>(
        req.valid("query"),
        ({ place }) => ({ at: place, id: "c" }),
        ({ at }, limit) => agent.cycles(at, limit),
      );
      return json(pages.of(found, cycleView), 200);
    })
    .openapi(showCycle, async ({ env, req, var: { caller }, json }) => {
      const { brand, cycle } = req.valid("param");
      const agent = await agentOf(env, caller.tenantId, brand);
      const found = await agent.cycle(cycle);
      if (!found)
        throw new HttpRefusal("cycle_not_found", `The brand ${brand} has no such cycle. List them with GET /v1/brands/${brand}/cycles.`);
      return json({ ...cycleView(found), keywords: found.keywords }, 200);
    });
}

export function cycleSummary({ cycle, started_at, ended_at }: CycleRow) {
  const state = ended_at === null ? ("running" as const) : ("done" as const);
  return { cycle, state, started_at: times.iso(started_at), ended_at: times.isoOrNull(ended_at) };
}

function cycleView(row: CycleView): z.infer<typeof CycleSchema> {
  const { round, priority, correlation_id, counts, told } = row;
  return { ...cycleSummary(row), round, priority, correlation_id, counts, told };
}
