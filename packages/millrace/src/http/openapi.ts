import * as z from "zod";
import { nameBodies } from "./cloud-events.ts";
import { documentOf } from "./document.ts";
import { ENGINE_GROUPS, type Group, tagOf } from "./openapi-groups.ts";
import { operation } from "./operation.ts";
import { LIMIT_HEADER_COMPONENTS } from "./problem.ts";
import { byStatus, ENGINE_PROBLEMS, type Problems } from "./problems.ts";
import type { Described } from "./router.ts";
import { commandSchema, eventSchema } from "./routes/accept.ts";

const INFO = {
  title: "Millrace",
  version: "1",
  license: { name: "MIT", identifier: "MIT" },
  description:
    "An orchestration engine for Cloudflare Workers. Every route under /v1 needs a token and reads and changes only the data of the token's tenant. Errors are problem details (RFC 9457).",
};

/** The server's URL is relative, because the server of the OpenAPI document also serves the routes. */
const SERVERS = [{ url: "/", description: "The deployment that serves this document" }];

interface Beside {
  groups: readonly Group[];
  problems: Problems;
  scopes: readonly string[];
}

/** Serves the OpenAPI document of the `described` routes. The first request builds the document. */
export function openApi(described: Described, { groups, problems: known, scopes }: Beside) {
  let document: object | undefined;
  const named = [...new Set(["enqueue", "read", "operate", ...scopes, "pull", "observe", "tokens"])].map((scope) => `\`${scope}\``);
  described.component("securitySchemes", "bearer", {
    type: "http",
    scheme: "bearer",
    bearerFormat: "mr_<id>_<secret>",
    description: `A token with the scope the route names: ${named.join(", ")}; \`unattributed\` adds data without a tenant.`,
  });
  for (const [name, header] of Object.entries(LIMIT_HEADER_COMPONENTS)) described.component("headers", name, header);
  nameBodies(described, { Command: commandSchema, Event: eventSchema });
  return operation("get", "/openapi.json", "getDocument", "openapi show", {
    summary: "Get this OpenAPI document",
    description: "Returns the OpenAPI 3.1 document of this deployment, including the routes of the app.",
    security: [],
    answer: ["OpenAPI 3.1", z.looseObject({ openapi: z.string() })],
    run() {
      document ??= wholeOf(described, [...ENGINE_GROUPS, ...groups], known);
      return document as { openapi: string };
    },
  });
}

const UNKNOWN_PARAMETER = {
  description: `\`invalid_payload\`: ${ENGINE_PROBLEMS.invalid_payload.title}`,
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
};

function wholeOf(described: Described, groups: readonly Group[], problems: Problems): object {
  const document = documentOf(described);
  codesOf(document).enum = byStatus(problems).map(([name]) => name);
  for (const [path, item] of Object.entries(document.paths)) {
    for (const operation of Object.values(item)) {
      operation.tags = [tagOf(path, groups)];
      // Every route refuses unknown query parameters, so every route documents a 422.
      if (path.startsWith("/v1/")) operation.responses[422] ??= UNKNOWN_PARAMETER;
    }
  }
  const tags = groups.map(({ name, description }) => ({ name, description }));
  return { openapi: "3.1.0", info: INFO, servers: SERVERS, tags, ...document };
}

function codesOf(document: object): { enum?: string[] } {
  const { components } = document as { components: { schemas: { Problem: { properties: { code: object } } } } };
  return components.schemas.Problem.properties.code;
}
