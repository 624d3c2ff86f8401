import { enqueueOne, ids } from "millrace";
import { acceptance, answers, bodies, createRoute, HttpRefusal, needs, pages, Routes, times } from "millrace/http";
import type { Catalog } from "millrace/worker";
import * as z from "zod";
import { BrandCycle, brandName, cycle, keyword, priority } from "../messages/brand.ts";
import { findResearch, listResearch, type ResearchView } from "../systems/content/research.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

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

const show = createRoute({
  method: "get",
  path: "/v1/research/{id}",
  operationId: "getResearch",
  command: "research show",
  summary: "Get the research of a keyword",
  description: "Returns the sources of the search and their synthesis by a model. An article names its research as `research_id`.",
  ...needs("read"),
  request: { params: z.object({ id: z.string() }) },
  responses: { 200: answers("The research", ResearchSchema), ...problems("unauthorized", "forbidden", "research_not_found") },
});

const list = createRoute({
  method: "get",
  path: "/v1/research",
  operationId: "listResearch",
  command: "research list",
  summary: "List research, newest first",
  description: "Returns the research of all brands or of one. Upper and lower case of English letters make no difference.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      brand: brandName.optional(),
      keyword: keyword.optional(),
      topic: keyword.optional().meta({ description: "A keyword or a tag of the research.", examples: ["whisk"] }),
      ...pages.query,
    }),
  },
  responses: {
    200: answers("A page of research", pages.schema(ResearchSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const startSchema = z.strictObject({
  keywords: z.array(keyword).min(1).max(500),
  cycle: cycle.optional().meta({ description: "Default: a hash of the keywords, so the same keywords are the same cycle." }),
  priority: priority.default("normal"),
});

const start = createRoute({
  method: "post",
  path: "/v1/brands/{brand}/research",
  operationId: "startResearch",
  command: "brands research",
  summary: "Have keywords of a brand researched",
  description: "Same as the command `brand.cycle`: the brand's agent decides which keywords are researched, written about and published.",
  ...needs("enqueue"),
  request: { params: z.object({ brand: brandName }), body: bodies.json(startSchema) },
  responses: {
    202: acceptance.answer(z.object(acceptance.shape).meta({ id: "ResearchAccepted" })),
    ...problems(...bodies.refusals, "idempotency_key_reused"),
  },
});

export function research(catalog: Catalog) {
  return new Routes<ApiEnv>()
    .openapi(list, async ({ env, req, var: { caller }, json }) =>
      json(pages.of(await listResearch(env.DB, caller.tenantId, req.valid("query")), researchView), 200),
    )
    .openapi(start, async ({ env, req, var: { caller }, json }) => {
      const { keywords, priority, cycle = ids.digest(JSON.stringify(keywords)).slice(0, 12) } = await bodies.read(req, startSchema);
      const payload = { brand: req.valid("param").brand, cycle, keywords, priority };
      const { tenantId, actor } = caller;
      const answer = await enqueueOne(env, catalog, { tenantId, source: `api/${actor}` }, { command: BrandCycle, payload });
      return json(acceptance.view(answer), 202, acceptance.headers(answer));
    })
    .openapi(show, async ({ env, req, var: { caller }, json }) => {
      const found = await findResearch(env.DB, caller.tenantId, req.valid("param").id);
      if (!found) throw new HttpRefusal("research_not_found", "There is no such research. List it with GET /v1/research.");
      return json(researchView(found), 200);
    });
}

function researchView({ researched_at, sources, ...row }: ResearchView): z.infer<typeof ResearchSchema> {
  const found = sources.map(({ title, url, description }) => ({ title, url, description }));
  return { ...row, sources: found, researched_at: times.iso(researched_at) };
}
