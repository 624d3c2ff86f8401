import {
  type Env,
  type Handler,
  Hono,
  type HonoRequest,
  type MiddlewareHandler,
  type Schema,
  type ToSchema,
  type TypedResponse,
} from "hono";
import type { BlankSchema, MergePath, MergeSchemaPath } from "hono/types";
import type { StatusCode } from "hono/utils/http-status";
import type { JSONParsed } from "hono/utils/types";
import * as z from "zod";
import { issuesIn } from "../contract/envelope.ts";
import type { Issue } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";
import { invalidRequest } from "./invalid-request.ts";

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
  /**
   * The noun and the verb of the route on the command line: `schedules pause`. The OpenAPI document contains the noun and the verb as
   * `x-command`.
   */
  readonly command?: string;
  readonly summary: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  /** Alternative security schemes, each with its scopes. A request must satisfy at least one of the schemes. */
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  // biome-ignore lint/suspicious/noExplicitAny: a route says nothing of the bindings that its middleware reads
  readonly middleware?: MiddlewareHandler<any> | readonly MiddlewareHandler<any>[];
  readonly request?: {
    readonly params?: z.ZodObject;
    readonly query?: z.ZodObject;
    readonly headers?: z.ZodObject;
    readonly body?: { readonly required?: boolean; readonly content: Content };
  };
  readonly responses: Readonly<Record<number | string, Answer>>;
}

/** Declares a route, and keeps the exact types of its parts. */
export function createRoute<const Path extends string, Given extends Omit<Route, "path"> & { path: Path }>(route: Given): Given {
  return route;
}

/** Documents a successful JSON response. */
export function answers<Schema extends z.ZodType>(description: string, schema: Schema) {
  return { description, content: { "application/json": { schema } } };
}

export class Described {
  readonly routes: Route[] = [];
  readonly webhooks: Route[] = [];
  readonly components: Record<string, Record<string, object>> = {};

  /** Adds a named component to the OpenAPI document: `{ $ref: "#/components/<kind>/<name>" }`. */
  component(kind: string, name: string, value: object): void {
    this.components[kind] = { ...this.components[kind], [name]: value };
  }

  takeOver({ routes, webhooks, components }: Described, below: string): void {
    this.routes.push(...routes.map((route) => ({ ...route, path: `${below}${route.path}` })));
    this.webhooks.push(...webhooks);
    for (const [kind, named] of Object.entries(components)) {
      for (const [name, value] of Object.entries(named)) this.component(kind, name, value);
    }
  }
}

export type PathOf<Path extends string> = Path extends `${infer Start}/{${infer Name}}${infer Rest}`
  ? `${Start}/:${Name}${PathOf<Rest>}`
  : Path;

type Read<Where extends string, Parts, Part extends string> =
  Parts extends Record<Part, infer Of extends z.ZodObject> ? { in: Record<Where, z.input<Of>>; out: Record<Where, z.output<Of>> } : unknown;
/** The types of a request's parsed parts: strings in a client, values in the handler. */
type InputOf<Of extends Route> = Read<"param", Of["request"], "params"> &
  Read<"query", Of["request"], "query"> &
  Read<"header", Of["request"], "headers"> extends infer Input
  ? Input extends object
    ? Input
    : object
  : never;

type AnswerOf<Said, Status extends StatusCode> = Said extends { content: infer By }
  ? {
      [Type in keyof By]: Type extends `${string}json`
        ? By[Type] extends { schema: infer Of extends z.ZodType }
          ? TypedResponse<JSONParsed<z.output<Of>>, Status, "json">
          : never
        : Response;
    }[keyof By]
  : TypedResponse<object, Status, string>;
/** The responses of a handler, by status and schema. Errors are thrown. */
type AnswersOf<Of extends Route> = {
  [Status in keyof Of["responses"] & StatusCode]: AnswerOf<Of["responses"][Status], Status>;
}[keyof Of["responses"] & StatusCode];
/** The type of a response without content, if the route has one. */
type Bare<Of extends Route> = Of["responses"] extends { [status: number]: { content: object } } ? never : Response;

export type RouteHandler<Of extends Route, E extends Env> = Handler<
  E,
  PathOf<Of["path"]>,
  InputOf<Of>,
  AnswersOf<Of> | Bare<Of> | Promise<AnswersOf<Of> | Bare<Of>>
>;

/** A Hono app with described routes, which parses the routes' parameters with the described schemas. */
export class Routes<E extends Env = Env, S extends Schema = BlankSchema, Base extends string = "/"> extends Hono<E, S, Base> {
  readonly described = new Described();

  /** Adds a route with its description and its handler. Errors: `invalid_payload` for invalid parameters. */
  openapi<const Of extends Route>(
    route: Of,
    handler: RouteHandler<Of, E>,
  ): Routes<E, S & ToSchema<Of["method"], MergePath<Base, PathOf<Of["path"]>>, InputOf<Of>, AnswersOf<Of>>, Base> {
    this.described.routes.push(route);
    const { method, path, middleware = [] } = route;
    const read = readerOf(route);
    const parsed: Handler = (context, next) => {
      read(context.req);
      return (handler as Handler)(context, next);
    };
    this.on(method.toUpperCase(), path.replaceAll(/\{(\w+)\}/g, ":$1"), ...([...[middleware].flat(), parsed] as [Handler]));
    return this as never;
  }

  /** Mounts another app, and adds the descriptions of its routes. */
  override route<Below extends string, OtherEnv extends Env, Other extends Schema, OtherBase extends string>(
    below: Below,
    app: Hono<OtherEnv, Other, OtherBase>,
  ): Routes<E, MergeSchemaPath<Other, MergePath<Base, Below>> & S, Base> {
    super.route(below, app);
    if (app instanceof Routes) this.described.takeOver(app.described, below === "/" ? "" : below);
    return this as never;
  }
}

/** A function that parses the query, the path and the headers of a request, in this order. */
function readerOf({ method, path, security, request = {} }: Route): (asked: HonoRequest) => void {
  const { params, headers } = request;
  // A request with a misspelt filter would return an unfiltered list.
  const query = path.startsWith("/v1/") ? (request.query ?? z.object({})).strict() : request.query;
  const named = Object.keys(headers?.shape ?? {});
  // Senders of webhooks choose their own headers. Other senders of this header expect that the request can be repeated.
  const refusesKey = method !== "get" && !path.startsWith("/inbound/") && !named.includes("idempotency-key");
  return (asked) => {
    if (security.length > 0) refuseUnreadable(asked.url);
    if (refusesKey && asked.header("idempotency-key") !== undefined)
      throw invalidRequest([{ path: "Idempotency-Key", message: "is not read by this route: leave the header out" }]);
    if (query && (request.query || asked.url.includes("?"))) parse(asked, "query", query, sentOnce(asked.queries()));
    if (params) parse(asked, "param", params, asked.param());
    if (headers) parse(asked, "header", headers, Object.fromEntries(named.map((name) => [name, asked.header(name)])));
  };
}

function parse(asked: HonoRequest, where: "query" | "param" | "header", schema: z.ZodObject, sent: object): void {
  const read = schema.safeParse(sent);
  if (!read.success) throw invalidRequest(issuesIn(schema, sent, read.error).map(saidOnce));
  asked.addValidatedData(where, read.data);
}

/** A query parameter that is sent once is a string. A query parameter that is sent twice is a list, which the schemas refuse. */
function sentOnce(queries: Record<string, string[]>): object {
  return Object.fromEntries(Object.entries(queries).map(([name, values]) => [name, values.length === 1 ? values[0] : values]));
}

function saidOnce(issue: Issue): Issue {
  return issue.message.endsWith(", not array") ? { ...issue, message: "occurs more than once: send it once" } : issue;
}

/**
 * Refuses a URL that contains NUL, and a URL that is not percent-encoded UTF-8. A URL in another encoding could be read as a different URL.
 */
function refuseUnreadable(url: string): void {
  if (!/[%?]/.test(url)) return;
  const { pathname, search } = new URL(url);
  const unreadable = [...(decoded(pathname) === undefined ? [{ path: "path", message: NOT_ENCODED }] : []), ...unreadableValues(search)];
  if (unreadable.length > 0) throw invalidRequest(unreadable.slice(0, 50));
}

const NOT_ENCODED = "is not percent-encoded UTF-8: send the character % itself as %25";

/** Checks the query of a URL before decoding, because decoding replaces invalid bytes. */
function unreadableValues(search: string): Issue[] {
  return search
    .slice(1)
    .split("&")
    .flatMap((pair) => {
      const text = decoded(pair);
      if (text !== undefined && !text.includes("\0")) return [];
      const path = beginning(pair.split("=")[0] ?? "", 64);
      return [{ path, message: text === undefined ? NOT_ENCODED : "contains the character NUL: remove it" }];
    });
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
