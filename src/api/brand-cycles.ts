import { HttpRefusal, pages, times } from "millrace/http";
import { keysetPage } from "millrace/operate";
import * as z from "zod";
import { brandName, cycle, priority } from "../messages/brand.ts";
import type { CycleView } from "../systems/brand/brand-agent.ts";
import { CYCLE_KEYWORD_STATES, type CycleRow } from "../systems/brand/cycles.ts";
import { VERDICTS } from "../systems/brand/decide.ts";
import { agentOf } from "./brand-agent.ts";
import { operation } from "./operation.ts";

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

const PATH = "/v1/brands/{brand}/cycles";

export const brandCycles = [
  operation("get", PATH, "listBrandCycles", "brands cycles", {
    summary: "List the cycles of a brand, newest first",
    description: "Returns each cycle with the states of its keywords by number. Ended cycles are kept for 90 days.",
    params: { brand: brandName },
    query: pages.query,
    answer: ["A page of cycles", pages.schema(CycleSchema)],
    problems: ["brand_not_found"],
    async run({ env, by, param, query }) {
      const agent = await agentOf(env, by.tenantId, param.brand);
      const found = await keysetPage<CycleView>(
        query,
        ({ place }) => ({ at: place, id: "c" }),
        ({ at }, limit) => agent.cycles(at, limit),
      );
      return pages.of(found, cycleView);
    },
  }),
  operation("get", `${PATH}/{cycle}`, "getBrandCycle", "brands cycle", {
    summary: "Get a cycle of a brand",
    description:
      "Returns whether the cycle is done, and the state of each keyword. A cycle is done when each keyword is published, rejected, failed or skipped. The event `brand.cycle_ended` is sent once at that time.",
    params: { brand: brandName, cycle },
    answer: ["The cycle", CycleDetailSchema],
    problems: ["brand_not_found", "cycle_not_found"],
    async run({ env, by, param: { brand, cycle } }) {
      const agent = await agentOf(env, by.tenantId, brand);
      const found = await agent.cycle(cycle);
      if (!found)
        throw new HttpRefusal("cycle_not_found", `The brand ${brand} has no such cycle. List them with GET /v1/brands/${brand}/cycles.`);
      return { ...cycleView(found), keywords: found.keywords };
    },
  }),
];

export function cycleSummary({ cycle, started_at, ended_at }: CycleRow) {
  const state = ended_at === null ? ("running" as const) : ("done" as const);
  return { cycle, state, started_at: times.iso(started_at), ended_at: times.isoOrNull(ended_at) };
}

function cycleView(row: CycleView): z.infer<typeof CycleSchema> {
  const { round, priority, correlation_id, counts, told } = row;
  return { ...cycleSummary(row), round, priority, correlation_id, counts, told };
}
