import * as z from "zod";
import { digest } from "../contract/ids.ts";
import { documentOf } from "./document.ts";
import { operation } from "./operation.ts";
import { byStatus, type Problems } from "./problems.ts";
import { answers, type Described } from "./router.ts";

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

/** Serves the OpenAPI document of the `described` routes. The first request builds its text, and `ETag` names the text. */
export function openApi(described: Described, { groups, problems, scopes }: Beside) {
  let text: string | undefined;
  let etag = "";
  return operation("get", "/openapi.json", "getDocument", "openapi show", {
    summary: "Get this OpenAPI document",
    description: "Returns the OpenAPI 3.1 document of this deployment, including the routes of the app.",
    security: [],
    answer: {
      200: answers("OpenAPI 3.1", z.looseObject({ openapi: z.string() })),
      304: { description: "`If-None-Match` has the `ETag` of this document" },
    },
    run({ context }) {
      if (text === undefined) {
        text = JSON.stringify(wholeOf(described, { groups: [...ENGINE_GROUPS, ...groups], problems, scopes }));
        etag = `"${digest(text)}"`;
      }
      context.header("etag", etag);
      // A proxy that compresses the text makes the tag weak: `W/"…"`.
      if (context.req.header("if-none-match")?.includes(etag)) return context.body(null, 304);
      return context.body(text, 200, { "content-type": "application/json" });
    },
  });
}

function wholeOf(described: Described, { groups, problems, scopes }: Beside): object {
  const document = documentOf(described, problems);
  const { schemas, securitySchemes } = document.components;
  const { properties } = schemas.Problem as { properties: { code: object } };
  Object.assign(properties.code, { enum: byStatus(problems).map(([name]) => name) });
  const named = [...new Set(["enqueue", "read", "operate", ...scopes, "pull", "observe", "tokens"])].map((scope) => `\`${scope}\``);
  securitySchemes.bearer = {
    type: "http",
    scheme: "bearer",
    bearerFormat: "mr_<id>_<secret>",
    description: `A token with the scope the route names: ${named.join(", ")}; \`unattributed\` adds data without a tenant.`,
  };
  for (const [path, item] of Object.entries(document.paths)) {
    for (const operation of Object.values(item)) operation.tags = [tagOf(path, groups)];
  }
  const tags = groups.map(({ name, description }) => ({ name, description }));
  return { openapi: "3.1.0", info: INFO, servers: SERVERS, tags, ...document };
}

/** A group of routes in the OpenAPI document. `paths` are path prefixes of its routes. */
export interface Group {
  name: string;
  description: string;
  paths: readonly string[];
}

const ENGINE_GROUPS: readonly Group[] = [
  {
    name: "Commands",
    paths: ["/v1/commands", "/v1/events", "/v1/callback-secret", "/inbound"],
    description: "Accept commands, events and webhooks.",
  },
  {
    name: "Instances",
    paths: ["/v1/instances"],
    description: "Read instances with their status, steps, effects and messages; retry, undo, pause and cancel them.",
  },
  { name: "Effects", paths: ["/v1/effects"], description: "Resolve effects with an unknown outcome (`in_doubt`)." },
  { name: "Approvals", paths: ["/v1/approvals"], description: "Read and answer the questions of instances." },
  { name: "Dead letters", paths: ["/v1/dead-letters"], description: "Read, replay and skip messages that no consumer could process." },
  {
    name: "Bulk actions",
    paths: ["/v1/bulk-actions"],
    description: "Apply one action to many items: count them first, run in stages, halt, resume.",
  },
  {
    name: "Lanes",
    paths: ["/v1/lanes"],
    description: "Lanes keep the order of messages per key. Find stalled lanes, pause and resume them.",
  },
  { name: "Schedules", paths: ["/v1/schedules"], description: "Send commands at times of a cron expression." },
  {
    name: "Limits",
    paths: ["/v1/limits"],
    description: "Read the usage of rate limits, the waiting calls, and reductions after refusals of an upstream.",
  },
  { name: "Locks", paths: ["/v1/locks"], description: "Read the holders of locks and break a lock." },
  { name: "Divergences", paths: ["/v1/divergences"], description: "Read differences between two records of the same fact." },
  {
    name: "Finding",
    paths: ["/v1/search", "/v1/correlations", "/v1/keys"],
    description: "Find items by any id or key, a whole job, or the holder of a key.",
  },
  {
    name: "Catalog",
    paths: ["/v1/catalog"],
    description:
      "Read which messages, queues and workflows the deployment has, and how they are connected; check a message before you send it.",
  },
  { name: "Live", paths: ["/v1/stream", "/v1/stream-tokens"], description: "Follow changes as server-sent events, also in a browser." },
  {
    name: "Tokens",
    paths: ["/v1/tokens", "/v1/caller", "/v1/sign-in-codes", "/console/sign-in"],
    description: "Mint, list and revoke API tokens; sign in to the console.",
  },
  { name: "Audit", paths: ["/v1/audit"], description: "Read the actions of operators and their reasons." },
  {
    name: "Health",
    paths: ["/metrics", "/v1/queues", "/v1/messages", "/v1/workflows"],
    description: "Read counters, gauges and queue health of the whole deployment.",
  },
  { name: "Alerts", paths: ["/v1/alerts"], description: "Read and mute alerts about the health of the deployment." },
  { name: "Costs", paths: ["/v1/costs"], description: "Read the cost of workflows and the monthly cost of the deployment." },
  { name: "Model Context Protocol", paths: ["/mcp"], description: "Use the operations as tools of a language model." },
  { name: "Deployment", paths: ["/"], description: "The API document, the health check and the problem reference." },
];

/** The name of the group with the longest prefix that matches a path. */
function tagOf(path: string, groups: readonly Group[]): string {
  const fitting = groups
    .flatMap(({ name, paths }) => paths.map((start) => ({ name, start })))
    .filter(({ start }) => path === start || path.startsWith(start === "/" ? start : `${start}/`));
  return fitting.reduce((longest, one) => (one.start.length > longest.start.length ? one : longest)).name;
}
