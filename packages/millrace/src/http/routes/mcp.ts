import * as z from "zod";
import type { HttpEnv } from "../env.ts";
import type { Document } from "../openapi.ts";
import { needs, operation } from "../operation.ts";
import { HttpRefusal } from "../problem.ts";
import { answers } from "../router.ts";

export interface McpCall {
  readonly request: Request;
  readonly body: unknown;
  readonly caller: { readonly id: string; readonly scopes: readonly string[] };
  readonly document: Pick<Document, "paths" | "components">;
  /** The value of MILLRACE_KEY, which signs confirmations. */
  readonly key: string;
  /** Calls the API in the same process. */
  fetch(request: Request): Promise<Response>;
}

/** The module `millrace/mcp`. */
export interface McpServing {
  serveMcp(call: McpCall): Promise<Response>;
}

export const MCP_PATH = "/mcp";

const message = z.looseObject({ jsonrpc: z.literal("2.0") });

type Ask = (request: Request, context: { env: HttpEnv["Bindings"] }) => Promise<Response>;

/** `load` imports `millrace/mcp`, which needs `@modelcontextprotocol/server`. `ask` calls the whole API. */
export function mcp(load: () => Promise<McpServing>, ask: Ask) {
  let document: McpCall["document"] | undefined;
  return operation("post", MCP_PATH, "callTools", undefined, {
    summary: "Use the API as tools of the Model Context Protocol",
    description:
      "Streamable HTTP without sessions. The tools are the reads of this document, and the acts with a dry run that the scopes of the token allow.",
    ...needs("read"),
    body: message.extend({ method: z.string() }),
    answer: {
      200: answers("A message of JSON-RPC 2.0", message),
      202: { description: "A notification was accepted" },
      400: answers("`invalid_json`: The body is not JSON", message),
    },
    async run({ env, by: { id, scopes }, body, context }) {
      const { raw, url } = context.req;
      const { origin } = new URL(url);
      const from = context.req.header("origin");
      // The protocol requires this check: a page of another site must not send requests to the server through the browser of a user.
      if (from !== undefined && from !== origin) {
        throw new HttpRefusal("forbidden", `A page of ${from} cannot use the tools. Call them without a browser, or from ${origin}.`);
      }
      const fetch = (request: Request) => ask(request, context);
      document ??= (await (await fetch(new Request(new URL("/openapi.json", url)))).json()) as McpCall["document"];
      const { serveMcp } = await load();
      return serveMcp({ request: raw, body, caller: { id, scopes }, document, key: env.MILLRACE_KEY, fetch });
    },
  });
}
