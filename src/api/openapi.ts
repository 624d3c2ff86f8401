import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problem.ts";
import { answers } from "./responses.ts";

const INFO = {
  title: "Millrace",
  version: "1",
  description:
    "An orchestration engine for Cloudflare Workers. Everything under /v1 needs a token, and shows and changes its tenant's data only. Errors are problem details (RFC 9457).",
};

const show = createRoute({
  method: "get",
  path: "/openapi.json",
  summary: "Describe every route",
  responses: { 200: answers("OpenAPI 3.1", z.looseObject({ openapi: z.string() })), ...problems() },
});

/** The document, generated from the routes of `api` when it is first asked for. */
export function openApi(api: OpenAPIHono<ApiEnv>) {
  let document: ReturnType<typeof api.getOpenAPI31Document> | undefined;
  api.openAPIRegistry.registerComponent("securitySchemes", "bearer", {
    type: "http",
    scheme: "bearer",
    bearerFormat: "mr_<id>_<secret>",
    description:
      "A token with the scope the route names: `enqueue`, `read`, `operate`, `embedded`, `tokens`; `unattributed` adds what names no tenant.",
  });
  return new OpenAPIHono<ApiEnv>().openapi(show, (context) => {
    document ??= api.getOpenAPI31Document({ openapi: "3.1.0", info: INFO });
    return context.json(document as object as { openapi: string }, 200);
  });
}
