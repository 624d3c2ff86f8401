import { type Env, type Handler, Hono, type HonoRequest, type MiddlewareHandler } from "hono";
import * as z from "zod";
import { issuesIn } from "../contract/envelope.ts";
import type { Issue } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";
import type { Failures } from "./problem.ts";
import { invalidRequest } from "./problem.ts";

/** The body of a request or response by media type: a zod schema, or JSON Schema, which the OpenAPI document uses unchanged. */
type Content = Readonly<Record<string, { readonly schema: object }>>;

interface Answer {
  readonly description: string;
  readonly headers?: object;
  readonly content?: Content;
}

/** A route of the OpenAPI document. The schemas of `request` also parse the route's parameters. The route's handler reads the body. */
export interface Route {
  readonly method: "get" | "post" | "put" | "patch" | "delete";
  /** The path, with names in braces: `/v1/instances/{id}`. */
  readonly path: string;
  readonly operationId: string;
  /** The noun and the verb on the command line, `x-command` in the OpenAPI document: `schedules pause`. */
  readonly command?: string;
  readonly summary: string;
  readonly description?: string;
  /** The reason why the action of the route cannot be undone. */
  readonly "x-final"?: string;
  readonly tags?: readonly string[];
  /** Alternative security schemes, each with its scopes. A request must satisfy at least one of the schemes. */
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  // biome-ignore lint/suspicious/noExplicitAny: a route says nothing of the bindings that its middleware reads
  readonly middleware?: MiddlewareHandler<any>;
  readonly request?: {
    readonly params?: z.ZodObject;
    readonly query?: z.ZodObject;
    readonly headers?: z.ZodObject;
    readonly body?: { readonly required?: boolean; readonly content: Content };
  };
  readonly responses: Readonly<Record<number | string, Answer>>;
  /** The codes of the route's problems. Codes that every route can return are added. Undefined for a route that returns no problems. */
  readonly problems?: readonly string[];
  /** Security schemes of the OpenAPI document that `security` names, other than `bearer`. */
  readonly schemes?: Readonly<Record<string, object>>;
}

/** A route with its handler. `Schema` has the types for a client. */
export interface Operation<Schema = unknown> {
  readonly route: Route;
  // biome-ignore lint/suspicious/noExplicitAny: the bindings of an app's handler are the app's
  readonly handler: Handler<any>;
  readonly schema?: Schema;
}

export function answers<Schema extends z.ZodType>(description: string, schema: Schema) {
  return { description, content: { "application/json": { schema } } };
}

/** The routes of the OpenAPI document, and the requests that the deployment sends. */
export interface Described {
  readonly routes: Route[];
  readonly webhooks: Route[];
}

/** A Hono app with described routes, which parses the routes' parameters with the described schemas. */
export class Routes<E extends Env = Env> extends Hono<E> {
  readonly described: Described = { routes: [], webhooks: [] };
  failures?: Failures;

  /** Adds routes with their descriptions and handlers. A request with invalid parameters is refused (`invalid_payload`). */
  add(...operations: readonly Operation[]): this {
    for (const { route, handler } of operations) {
      this.described.routes.push(route);
      const { method, path, middleware = [] } = route;
      const read = readerOf(route);
      const parsed: Handler = (context, next) => {
        read(context.req);
        return handler(context, next);
      };
      this.on(method.toUpperCase(), path.replaceAll(/\{(\w+)\}/g, ":$1"), ...([...[middleware].flat(), parsed] as [Handler]));
    }
    return this;
  }

  /** Adds the routes of another app with their descriptions. */
  // biome-ignore lint/suspicious/noExplicitAny: its bindings are the app's
  include(app: Routes<any>): this {
    this.described.routes.push(...app.described.routes);
    this.described.webhooks.push(...app.described.webhooks);
    this.route("/", app);
    return this;
  }
}

/** A function that parses the query, the path and the headers of a request, in this order. */
function readerOf({ method, path, security, request = {} }: Route): (asked: HonoRequest) => void {
  const { params } = request;
  // A request with a misspelt filter would return an unfiltered list. Public pages accept further parameters.
  const isStrict = path.startsWith("/v1/") || (security.length > 0 && request.query !== undefined);
  const query = isStrict ? (request.query ?? z.object({})).strict() : request.query;
  // Senders of webhooks choose their own headers. Other senders of this header expect that the request can be repeated.
  const named = Object.keys(request.headers?.shape ?? {});
  const refusesKey = method !== "get" && !path.startsWith("/inbound/") && !named.includes("idempotency-key");
  // The parse of a header that may be any text would only take processor time of each command.
  const checked = Object.entries<z.ZodType>(request.headers?.shape ?? {}).filter(([, schema]) => !acceptsAnyText(schema));
  const headers = z.object(Object.fromEntries(checked));
  return (asked) => {
    if (security.length > 0) refuseUnreadable(asked.url);
    if (refusesKey && asked.header("idempotency-key") !== undefined)
      throw invalidRequest([{ path: "Idempotency-Key", message: "is not read by this route: leave the header out" }]);
    if (query && (request.query || asked.url.includes("?"))) parse(asked, "query", query, sentOnce(asked.queries()));
    if (params) parse(asked, "param", params, asked.param());
    if (checked.length > 0) parse(asked, "header", headers, Object.fromEntries(checked.map(([name]) => [name, asked.header(name)])));
  };
}

function acceptsAnyText(schema: z.ZodType): boolean {
  const text = schema instanceof z.ZodOptional ? schema.unwrap() : undefined;
  return text instanceof z.ZodString && !text.def.checks?.length;
}

function parse(asked: HonoRequest, where: "query" | "param" | "header", schema: z.ZodObject, sent: object): void {
  const read = schema.safeParse(sent);
  if (!read.success) throw invalidRequest(issuesIn(schema, sent, read.error).map(saidOnce));
  asked.addValidatedData(where, read.data);
}

/** A query parameter that is sent twice is a list, which the schemas refuse. */
function sentOnce(queries: Record<string, string[]>): object {
  return Object.fromEntries(Object.entries(queries).map(([name, values]) => [name, values.length === 1 ? values[0] : values]));
}

function saidOnce(issue: Issue): Issue {
  return issue.message.endsWith(", not array") ? { ...issue, message: "occurs more than once: send it once" } : issue;
}

/** Refuses a URL with NUL, or in an encoding other than percent-encoded UTF-8, which could be read as a different URL. */
function refuseUnreadable(url: string): void {
  if (!/[%?]/.test(url)) return;
  const { pathname, search } = new URL(url);
  const pairs = search.slice(1).split("&");
  const unreadable = [
    // A path with NUL names no item, and gets 404.
    ...unreadableIn("path", pathname.replaceAll("%00", "")),
    ...pairs.flatMap((pair) => unreadableIn(beginning(pair.split("=")[0] ?? "", 64), pair)),
  ];
  if (unreadable.length > 0) throw invalidRequest(unreadable.slice(0, 50));
}

/** Parsing a query would replace its invalid bytes, so its encoded text is checked. */
function unreadableIn(path: string, encoded: string): Issue[] {
  try {
    return decodeURIComponent(encoded).includes("\0") ? [{ path, message: "contains the character NUL: remove it" }] : [];
  } catch {
    return [{ path, message: "is not percent-encoded UTF-8: send the character % itself as %25" }];
  }
}
