import { enqueueOne, ids } from "millrace";
import { acceptance, HttpRefusal, needs, pages, times } from "millrace/http";
import * as z from "zod";
import { BrandCycle, brandName, cycle, keyword, priority } from "../messages/brand.ts";
import { findResearch, listResearch, type ResearchView } from "../systems/content/research.ts";
import { operation } from "./operation.ts";

const text = (description: string) => z.string().meta({ description });

const ResearchSchema = z
  .object({
    id: text("The id of the research, and of the instance that did it: /v1/instances/{id}/text-calls lists its paid answers."),
    brand: z.string(),
    keyword: z.string(),
    title: z
      .string()
      .nullable()
      .meta({ description: "The title is text from a model: never show it as HTML. It is null for research without a synthesis." }),
    summary: z
      .string()
      .nullable()
      .meta({ description: "A model's summary of the sources. The summary is null for research without a synthesis." }),
    key_points: z.array(z.string()),
    tags: z.array(z.string()),
    sources: z
      .array(z.object({ title: z.string(), url: z.string(), description: z.string() }))
      .meta({ description: "The results of the search, which are texts of strangers." }),
    prompt: z
      .string()
      .nullable()
      .meta({ description: "The name and the version of the prompt of the synthesis.", example: "synthesis.v1" }),
    model: z.string().nullable(),
    input_tokens: z.int(),
    output_tokens: z.int(),
    researched_at: times.timestamp,
  })
  .meta({ id: "Research" });

const startSchema = z.strictObject({
  keywords: z.array(keyword).min(1).max(500),
  cycle: cycle.optional().meta({ description: "Default: a hash of the keywords, so the same keywords are the same cycle." }),
  priority: priority.default("normal"),
});

export const research = [
  operation("get", "/v1/research", "listResearch", "research list", {
    summary: "List research, newest first",
    description: "Returns the research of all brands or of one. Upper and lower case of English letters make no difference.",
    query: {
      brand: brandName.optional(),
      keyword: keyword.optional(),
      topic: keyword.optional().meta({ description: "A keyword or a tag of the research.", examples: ["whisk"] }),
      ...pages.query,
    },
    answer: ["A page of research", pages.schema(ResearchSchema)],
    run: async ({ env, by, query }) => pages.of(await listResearch(env.DB, by.tenantId, query), researchView),
  }),
  operation("post", "/v1/brands/{brand}/research", "startResearch", "brands research", {
    summary: "Have keywords of a brand researched",
    description: "Same as the command `brand.cycle`: the brand's agent decides which keywords are researched, written about and published.",
    ...needs("enqueue"),
    params: { brand: brandName },
    body: startSchema,
    answer: ["Accepted", z.object(acceptance.shape).meta({ id: "ResearchAccepted" })],
    status: 202,
    location: "The instance.",
    repeats: true,
    problems: ["idempotency_key_reused"],
    async run({ env, by: { tenantId, actor }, catalog, param: { brand }, body: { keywords, priority, ...body }, context }) {
      const { cycle = ids.digest(JSON.stringify(keywords)).slice(0, 12) } = body;
      const command = { command: BrandCycle, payload: { brand, cycle, keywords, priority } };
      return acceptance.answer(context, await enqueueOne(env, catalog, { tenantId, source: `api/${actor}` }, command));
    },
  }),
  operation("get", "/v1/research/{id}", "getResearch", "research show", {
    summary: "Get the research of a keyword",
    description: "Returns the sources of the search and their synthesis by a model. An article names its research as `research_id`.",
    answer: ["The research", ResearchSchema],
    problems: ["research_not_found"],
    async run({ env, by, param }) {
      const found = await findResearch(env.DB, by.tenantId, param.id);
      if (!found) throw new HttpRefusal("research_not_found", "There is no such research. List it with GET /v1/research.");
      return researchView(found);
    },
  }),
];

function researchView({ researched_at, sources, ...row }: ResearchView): z.infer<typeof ResearchSchema> {
  const found = sources.map(({ title, url, description }) => ({ title, url, description }));
  return { ...row, sources: found, researched_at: times.iso(researched_at) };
}
