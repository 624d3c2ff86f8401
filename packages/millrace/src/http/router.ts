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
import type * as z from "zod";
import { issuesOf } from "../contract/envelope.ts";
import type { Issue } from "../contract/errors.ts";
import { unknownField } from "../contract/known-fields.ts";
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

/**
 * Checks a request before each described route. The app sets this function as the variable `beforeRoute`. The function throws to refuse
 * a request.
 */
export type BeforeRoute = (route: Route, request: HonoRequest) => void;

/** A Hono app with described routes, which parses the routes' parameters with the described schemas. */
export class Routes<E extends Env = Env, S extends Schema = BlankSchema, Base extends string = "/"> extends Hono<E, S, Base> {
  readonly described = new Described();

  /** Adds a route with its description and its handler. Errors: `invalid_payload` for invalid parameters. */
  openapi<const Of extends Route>(
    route: Of,
    handler: RouteHandler<Of, E>,
  ): Routes<E, S & ToSchema<Of["method"], MergePath<Base, PathOf<Of["path"]>>, InputOf<Of>, AnswersOf<Of>>, Base> {
    this.described.routes.push(route);
    const { method, path, request, middleware = [] } = route;
    const readers = PARTS.flatMap(({ part, where, sent }) => {
      const schema = request?.[part];
      return schema ? [reading(schema, where, sent)] : [];
    });
    const handlers = [aheadOf(route), ...[middleware].flat(), afterAll(readers, handler as Handler)];
    this.on(method.toUpperCase(), routerPath(path), ...(handlers as [Handler]));
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

function routerPath(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ":$1");
}

/** The parts of a request in the order in which they are parsed. */
const PARTS = [
  { part: "query", where: "query", sent: (request: HonoRequest) => mapped(request.queries()) },
  { part: "params", where: "param", sent: (request: HonoRequest) => request.param() },
  { part: "headers", where: "header", sent: headersOf },
] as const;

/** A query parameter that is sent once is a string. A query parameter that is sent twice is a list, which the schemas refuse. */
function mapped(queries: Record<string, string[]>): Record<string, string | string[] | undefined> {
  return Object.fromEntries(Object.entries(queries).map(([name, values]) => [name, values.length === 1 ? values[0] : values]));
}

/** The headers that a schema names. */
function headersOf(request: HonoRequest, { shape }: z.ZodObject): object {
  return Object.fromEntries(Object.keys(shape).map((name) => [name, request.header(name)]));
}

function aheadOf(route: Route): MiddlewareHandler {
  return (context, next) => {
    (context.get("beforeRoute") as BeforeRoute | undefined)?.(route, context.req);
    return next();
  };
}

function reading(schema: z.ZodObject, where: "query" | "param" | "header", sent: (request: HonoRequest, schema: z.ZodObject) => object) {
  return (request: HonoRequest) => {
    const read = schema.safeParse(sent(request, schema));
    if (!read.success) throw invalidRequest(issuesOf(read.error).map(where === "query" ? saidOnce : (issue) => issue));
    request.addValidatedData(where, read.data);
  };
}

/** A handler that parses the parts of its request first. */
function afterAll(readers: readonly ((request: HonoRequest) => void)[], handler: Handler): Handler {
  return (context, next) => {
    for (const read of readers) read(context.req);
    return handler(context, next);
  };
}

function saidOnce(issue: Issue): Issue {
  return issue.message.endsWith(", not array") ? { ...issue, message: "occurs more than once: send it once" } : issue;
}

/**
 * Refuses a URL that contains NUL, and a URL that is not percent-encoded UTF-8. A URL in another encoding could be read as a different URL.
 * Errors: `invalid_payload`.
 */
export const refuseUnreadable: MiddlewareHandler = (context, next) => {
  const { url } = context.req;
  if (!/[%?]/.test(url)) return next();
  const { pathname, search } = new URL(url);
  const unreadable = [...unreadablePath(pathname), ...unreadableValues(search)];
  if (unreadable.length > 0) throw invalidRequest(unreadable.slice(0, 50));
  return next();
};

/**
 * Refuses unknown query parameters, because a request with a misspelt filter would return an unfiltered list. Errors: `invalid_payload`.
 */
export function refuseParameters({ request }: Route, asked: HonoRequest): void {
  if (!asked.url.includes("?")) return;
  const known = Object.keys(request?.query?.shape ?? {});
  const unknown = [...new URL(asked.url).searchParams.keys()].filter((name) => !known.includes(name));
  const isRead = asked.method === "GET" || asked.method === "HEAD";
  if (unknown.length > 0)
    throw invalidRequest(unknown.slice(0, 50).map((name) => (isRead ? withBetterRoute(name, known) : unknownField([name], known))));
}

const BY_KEY = "use `GET /v1/keys/{key}` to find an idempotency key";
const BY_ID = "use `GET /v1/search?q=` to search by id";
/** Parameters that callers may try on a list that does not support them, each with a hint of the route that does. */
const BETTER_ROUTES: ReadonlyMap<string, string> = new Map([
  ["idempotency_key", BY_KEY],
  ["key", BY_KEY],
  ["id", BY_ID],
  ["instance_id", BY_ID],
  ["q", BY_ID],
  ["search", BY_ID],
  ["correlation_id", "use `GET /v1/correlations/{id}` for a whole job"],
]);

function withBetterRoute(name: string, known: readonly string[]): Issue {
  const issue = unknownField([name], known);
  const better = BETTER_ROUTES.get(name);
  return better && issue.message.endsWith("remove it") ? { ...issue, message: `is not a parameter of this route: ${better}` } : issue;
}

const NOT_ENCODED = "is not percent-encoded UTF-8: send the character % itself as %25";

function unreadablePath(pathname: string): Issue[] {
  return decoded(pathname) === undefined ? [{ path: "path", message: NOT_ENCODED }] : [];
}

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
