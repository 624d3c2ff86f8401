import { answers, createRoute, HttpRefusal, iso, needs, page, pageOf, pageQuery, Routes, timestamp } from "millrace/http";
import * as z from "zod";
import { brandName, keyword } from "../messages/brand.ts";
import { findResearch, listResearch, type ResearchView } from "../systems/content/research.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

const text = (description: string) => z.string().meta({ description });

const ResearchSchema = z
  .object({
    id: text("The id of the research, and of the instance that made it: its paid answers are under /v1/instances/{id}/text-calls."),
    brand: z.string(),
    keyword: z.string(),
    title: z.string().nullable().meta({ description: "Text from a model: never show it as HTML. Null without a synthesis." }),
    summary: z.string().nullable().meta({ description: "A model's summary of the sources. Null without a synthesis." }),
    key_points: z.array(z.string()),
    tags: z.array(z.string()),
    sources: z
      .array(z.object({ title: z.string(), url: z.string(), description: z.string() }))
      .meta({ description: "The results of the search: text of strangers." }),
    prompt: z.string().nullable().meta({ description: "The prompt of the synthesis, and its version.", example: "synthesis.v1" }),
    model: z.string().nullable(),
    input_tokens: z.int(),
    output_tokens: z.int(),
    researched_at: timestamp,
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
  path: "/v1/brands/{brand}/research",
  operationId: "listResearch",
  command: "brands research",
  summary: "List the research of a brand, newest first",
  description: "Returns the research of a brand, of one keyword or of all. Upper and lower case of English letters make no difference.",
  ...needs("read"),
  request: { params: z.object({ brand: brandName }), query: z.strictObject({ keyword: keyword.optional(), ...pageQuery }) },
  responses: { 200: answers("A page of research", pageOf(ResearchSchema)), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

export function research() {
  return new Routes<ApiEnv>()
    .openapi(list, async ({ env, req, var: { caller }, json }) =>
      json(page(await listResearch(env.DB, caller.tenantId, { ...req.valid("param"), ...req.valid("query") }), researchView), 200),
    )
    .openapi(show, async ({ env, req, var: { caller }, json }) => {
      const found = await findResearch(env.DB, caller.tenantId, req.valid("param").id);
      if (!found) throw new HttpRefusal("research_not_found", "There is no such research. List it with GET /v1/brands/{brand}/research.");
      return json(researchView(found), 200);
    });
}

function researchView({ researched_at, sources, ...row }: ResearchView): z.infer<typeof ResearchSchema> {
  const found = sources.map(({ title, url, description }) => ({ title, url, description }));
  return { ...row, sources: found, researched_at: iso(researched_at) };
}
