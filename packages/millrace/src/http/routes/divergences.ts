import * as z from "zod";
import { countDivergences, DivergenceFilter, DivergenceRow, listDivergences } from "../../inspect/divergences.ts";
import { needsOneOf } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const PageSchema = pageOf(DivergenceRow).extend({
  open: z.record(z.string(), z.int()).meta({ description: "The number of open ones, by kind." }),
});

const list = createRoute({
  ...at("get", "/v1/divergences", "listDivergences", "divergences list"),
  summary: "List divergences, newest first",
  description: "The scope `observe` reads the divergences of all tenants, the scope `read` those of the token's tenant.",
  ...needsOneOf("read", "observe"),
  request: { query: DivergenceFilter.extend(pageQuery).strict() },
  responses: reads("A page of divergences", PageSchema),
});

export function divergences() {
  return new Routes<HttpEnv>().openapi(list, async ({ env, req, var: { caller }, json }) => {
    const [found, open] = await Promise.all([listDivergences(env, caller, req.valid("query")), countDivergences(env, caller)]);
    return json({ ...page(found), open }, 200);
  });
}
