import { HttpRefusal, Routes } from "millrace/http";
import * as z from "zod";
import { servePage } from "../embedded/pages.ts";
import { everPublished } from "../systems/content/live.ts";
import type { ApiEnv } from "./env.ts";

const PREFIX = "/pages/";

const show: Route = {
  method: "get",
  path: "/pages/{path}",
  operationId: "showPage",
  summary: "Get a published page",
  description: "Serves the HTML of the page. The path of a page may contain slashes.",
  security: [],
  request: { params: z.object({ path: z.string() }) },
  responses: {
    200: { description: "The page", content: { "text/html": { schema: z.string() } } },
    304: { description: "The browser has this version" },
    308: { description: "A redirect to the index of the brand, with a trailing slash" },
  },
  problems: ["page_not_found"],
};
type Route = Routes["described"]["routes"][number];

export function pages() {
  const routes = new Routes<ApiEnv>();
  // This route is documented manually, because OpenAPI cannot describe a parameter with slashes.
  routes.described.routes.push(show);
  routes.get("/pages/:path{.+}", async (context) => {
    const path = decoded(new URL(context.req.url).pathname.slice(PREFIX.length));
    const found = path === undefined ? null : await servePage(context.env, path, context.req.raw.headers);
    if (found) return found;
    if (path === undefined || !(await isBrand(context.env.DB, path))) throw new HttpRefusal("page_not_found", "No page is published here.");
    return context.redirect(`${new URL(context.req.url).pathname}/`, 308);
  });
  return routes;
}

/** True for the path of a brand or of a brand's site without the final slash of the index's path. */
async function isBrand(db: D1Database, path: string): Promise<boolean> {
  const [tenantId, brand, site, ...rest] = path.split("/");
  if (tenantId === undefined || brand === undefined || rest.length > 0) return false;
  return everPublished(db, { tenantId, brand, ...(site !== undefined && { site }) });
}

function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}
