import * as z from "zod";
import { LimitRow, listLimits } from "../../limits/seen.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { nameQuery, pageBehind, pageOf } from "../paging.ts";
import { reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const list = createRoute({
  ...at("get", "/v1/limits", "listLimits", "limits list"),
  summary: "List the rate limits your tenant used in the last day, by name",
  description: "A limit shared by tenants is shown to each of them with the usage of all. The request limits of tokens are not included.",
  ...needs("read"),
  request: { query: z.strictObject(nameQuery(50, 100)) },
  responses: reads("A page of limits", pageOf(LimitRow)),
});

export function limits() {
  return new Routes<HttpEnv>().openapi(list, async ({ env, req, var: { caller }, json }) => {
    const { cursor = "", limit } = req.valid("query");
    return json(pageBehind(await listLimits(env, caller, { after: cursor, limit })), 200);
  });
}
