import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { nameBodies } from "./cloud-events.ts";
import { commandSchema } from "./commands.ts";
import type { ApiEnv } from "./env.ts";
import { TAGS, tagOf } from "./openapi-tags.ts";
import { PROBLEMS, problems } from "./problem.ts";
import { answers } from "./responses.ts";
import { eventSchema } from "./state-events.ts";
import { describeDeliveries } from "./webhook-document.ts";

const INFO = {
  title: "Millrace",
  version: "1",
  license: { name: "MIT", identifier: "MIT" },
  description:
    "An orchestration engine for Cloudflare Workers. Everything under /v1 needs a token, and shows and changes its tenant's data only. Errors are problem details (RFC 9457).",
};

/** Relative: whoever served the document answers the routes. */
const SERVERS = [{ url: "/", description: "The deployment that serves this document" }];

const show = createRoute({
  method: "get",
  path: "/openapi.json",
  operationId: "getDocument",
  summary: "Describe every route",
  security: [],
  responses: { 200: answers("OpenAPI 3.1", z.looseObject({ openapi: z.string() })), ...problems() },
});

/** The document, generated from the routes of `api` when it is first asked for. */
export function openApi(api: OpenAPIHono<ApiEnv>) {
  let document: object | undefined;
  api.openAPIRegistry.registerComponent("securitySchemes", "bearer", {
    type: "http",
    scheme: "bearer",
    bearerFormat: "mr_<id>_<secret>",
    description:
      "A token with the scope the route names: `enqueue`, `read`, `operate`, `embedded`, `tokens`; `unattributed` adds what names no tenant.",
  });
  describeDeliveries(api);
  nameBodies(api, { Command: commandSchema, Event: eventSchema });
  return new OpenAPIHono<ApiEnv>().openapi(show, (context) => {
    document ??= documentOf(api);
    return context.json(document as { openapi: string }, 200);
  });
}

interface Operation {
  tags?: string[];
  responses: Record<string, object>;
}

const UNKNOWN_PARAMETER = {
  description: `\`invalid_payload\`: ${PROBLEMS.invalid_payload[1]}`,
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
};

function documentOf(api: OpenAPIHono<ApiEnv>): object {
  const document = api.getOpenAPI31Document({ openapi: "3.1.0", info: INFO, servers: SERVERS, tags: TAGS });
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const operation of Object.values(item as Record<string, Operation>)) {
      operation.tags = [tagOf(path)];
      // What a query does not know is refused everywhere.
      if (path.startsWith("/v1/")) operation.responses[422] ??= UNKNOWN_PARAMETER;
    }
  }
  return document;
}
