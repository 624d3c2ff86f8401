import type { Context, MiddlewareHandler, ToSchema, TypedResponse } from "hono";
import type { StatusCode } from "hono/utils/http-status";
import type { JSONParsed } from "hono/utils/types";
import * as z from "zod";
import type { Scope } from "../access/tokens.ts";
import { orArchived } from "../archive/read.ts";
import { isVisible } from "../contract/chosen-name.ts";
import type { Catalog } from "../topology/catalog.ts";
import { lacksScope } from "./auth.ts";
import { jsonBody, readBody } from "./body.ts";
import type { Caller, Engine, HttpEnv } from "./env.ts";
import { idempotencyKey, keyHeader, replayedHeader, replayedHeaderSchema } from "./headers.ts";
import type { ENGINE_PROBLEMS } from "./problems.ts";
import { answers, type Operation, type Route } from "./router.ts";

/** Body of every operator action: the reason, which the audit stores. */
const reason = z
  .string()
  .trim()
  .min(1)
  .max(500)
  .refine(isVisible, "must contain a visible character")
  .describe("The reason, kept in the audit.");
export const reasoned = z.strictObject({ reason });

const BODY_REFUSALS = ["invalid_json", "payload_too_large", "unsupported_media_type", "invalid_payload"] as const;

/** Requires all given scopes. */
export function needs(...scopes: Scope[]) {
  return needing([scopes]);
}

/** Requires one of several lists of scopes: a token needs every scope of at least one list. */
export function needing(alternatives: readonly Scope[][]): { middleware: MiddlewareHandler<HttpEnv>; security: { bearer: string[] }[] } {
  const all = alternatives.flat();
  return {
    security: alternatives.map((scopes) => ({ bearer: scopes })),
    middleware: async (context, next) => {
      const caller = context.get("caller");
      const { method, routePath } = context.req;
      context.set("needed", { route: `${method} ${routePath.replaceAll(/:(\w+)/g, "{$1}")}`, scopes: all });
      const used = alternatives.find((scopes) => scopes.every((one) => caller.scopes.includes(one)));
      if (used === undefined) {
        const scope = alternatives[0]?.find((one) => !caller.scopes.includes(one));
        context.header("www-authenticate", `Bearer realm="millrace", error="insufficient_scope", scope="${scope}"`);
        throw lacksScope(String(scope));
      }
      context.set("caller", { ...caller, scope: used.join(" ") });
      await next();
    },
  };
}

type Shape = Readonly<Record<string, z.ZodType>>;
type Output<Of extends Shape> = z.output<z.ZodObject<Of>>;

/** The names in a path, each a string. */
type InPath<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Record<Name, z.ZodString> & InPath<Rest>
  : Record<never, never>;

/** A path as Hono writes it: `/v1/instances/:id`. */
export type PathOf<Path extends string> = Path extends `${infer Start}/{${infer Name}}${infer Rest}`
  ? `${Start}/:${Name}${PathOf<Rest>}`
  : Path;

/** A request of an operation, with its parsed parts. */
export interface Asked<
  Params extends Shape = Shape,
  Query extends Shape = Shape,
  Body extends z.ZodType = z.ZodType,
  E extends HttpEnv = HttpEnv,
> {
  readonly env: E["Bindings"];
  readonly by: Caller;
  readonly catalog: Catalog;
  readonly engine: Engine;
  readonly param: Output<Params>;
  readonly query: Output<Query>;
  readonly body: z.output<Body>;
  /** The header `Idempotency-Key`. Errors: `invalid_payload`. */
  readonly key: string | undefined;
  /** The time of the move of an archived instance, in milliseconds. Then `env.DB` returns the rows of this instance. Null otherwise. */
  readonly archivedAt: number | null;
  readonly context: Context<E>;
}

interface Declared<
  E extends HttpEnv,
  Code,
  Params extends Shape,
  Query extends Shape,
  Body extends z.ZodType,
  Answer extends z.ZodType,
  Status,
  Plan extends z.ZodType,
> {
  readonly summary: string;
  readonly description: string;
  readonly "x-final"?: Route["x-final"];
  /** The scopes of the route, by `needs`; an empty list for a route without a token. */
  readonly security?: Route["security"];
  readonly middleware?: Route["middleware"];
  readonly schemes?: Route["schemes"];
  /** The parameters of the path that are not any string. */
  readonly params?: Params;
  readonly query?: Query;
  readonly headers?: Shape;
  /** The JSON body, read with its limits before the handler. */
  readonly body?: Body;
  /** The documented body of a handler that reads the body. */
  readonly content?: NonNullable<NonNullable<Route["request"]>["body"]>["content"];
  readonly limits?: Pick<NonNullable<Parameters<typeof readBody>[2]>, "maxBytes" | "withinMs">;
  /** The meaning of `Idempotency-Key`. A repeat is answered with `replayed` and `Idempotency-Replayed`. */
  readonly key?: string;
  /** True if a repeat is answered so although the route does not read `Idempotency-Key`. */
  readonly repeats?: true;
  /** The description of the header `Location`, which the handler sets. */
  readonly location?: string;
  /** The successful answer with its description, or documented answers of a handler that makes its `Response`. */
  readonly answer: readonly [description: string, schema: Answer] | Route["responses"];
  /** The status of the successful answer. Default 200. */
  readonly status?: Status;
  /** The problems in addition to those of any request of this kind. */
  readonly problems?: readonly Code[];
  /** True if the route reads the instance of its path, also an archived one. Then a problem is `instance_not_found`. */
  readonly archived?: true;
  /** Answers a request with `dry_run` in its body. */
  readonly plan?: {
    readonly answer: readonly [description: string, schema: Plan];
    run(asked: Asked<Params, Query, Body, E>): Promise<z.output<Plan>>;
  };
  run(asked: Asked<Params, Query, Body, E>): Answered<Answer> | Promise<Answered<Answer>>;
}
type Answered<Answer extends z.ZodType> = z.output<Answer> | Response;

type Part<Where extends string, Of extends Shape> = [keyof Of] extends [never] ? object : Record<Where, z.input<z.ZodObject<Of>>>;
type Sent<Of extends z.ZodType, Status extends StatusCode, Otherwise> = [Of] extends [never]
  ? Otherwise
  : TypedResponse<JSONParsed<z.output<Of>>, Status, "json">;

function refusalsOf(security: Route["security"], body: object | undefined): readonly (keyof typeof ENGINE_PROBLEMS)[] {
  const ofToken = security.some((scheme) => "bearer" in scheme) ? (["unauthorized", "forbidden"] as const) : [];
  return [...ofToken, ...(body ? BODY_REFUSALS : [])];
}

/**
 * A function that declares a route with its handler, for an app with the bindings of `E` and the problem codes of `Code`. The address of the
 * route is followed by its names in the OpenAPI document and on the command line (see `Route`). The handler returns the body of the
 * successful answer. A route without `security` needs the scope `read` for a GET, otherwise `operate`.
 */
export function operationIn<E extends HttpEnv, Code extends string = keyof typeof ENGINE_PROBLEMS>() {
  return <
    const Method extends Route["method"],
    const Path extends string,
    Answer extends z.ZodType = never,
    Params extends Shape = InPath<Path>,
    Query extends Shape = Record<never, never>,
    Body extends z.ZodType = never,
    const Status extends 200 | 201 | 202 = 200,
    Plan extends z.ZodType = never,
  >(
    method: Method,
    path: Path,
    operationId: string,
    command: string | undefined,
    declared: Declared<E, Code, Params, Query, Body, Answer, Status, Plan>,
  ): Operation<
    ToSchema<
      Method,
      PathOf<Path>,
      { in: Part<"param", Params> & Part<"query", Query> },
      Sent<Answer, Status, Response> | Sent<Plan, 200, never>
    >
  > => {
    const { params, query, headers, body, content, limits, key, repeats, location, answer, archived, plan, run, ...rest } = declared;
    const { status = 200, problems = [], ...said } = rest;
    const secured = { ...(said.security ? {} : needs(method === "get" ? "read" : "operate")), ...said } as Pick<
      Route,
      "security" | "summary"
    >;
    const inPath = path.matchAll(/\{(\w+)\}/g).map(([, name = ""]) => [name, z.string()] as const);
    const shape = { ...Object.fromEntries(inPath), ...params };
    const isRepeatable = key !== undefined || repeats === true;
    const sent = {
      ...(location !== undefined && { Location: { description: location, schema: { type: "string" } } }),
      ...(isRepeatable && replayedHeaderSchema),
    };
    const documented = Array.isArray(answer)
      ? { [status]: { ...answers(...(answer as [string, Answer])), ...(Object.keys(sent).length > 0 && { headers: sent }) } }
      : (answer as Route["responses"]);
    const route: Route = {
      ...{ method, path, operationId, ...(command !== undefined && { command }), ...secured },
      request: {
        ...(Object.keys(shape).length > 0 && { params: z.object(shape) }),
        ...(query && { query: z.object(query) }),
        ...((headers ?? key) !== undefined && { headers: z.object({ ...(key !== undefined && keyHeader(key)), ...headers }) }),
        ...(body && { body: jsonBody(body) }),
        ...(content && { body: { required: true, content } }),
      },
      responses: { ...((plan && { 200: answers(...plan.answer) }) as Route["responses"] | undefined), ...documented },
      problems: [...refusalsOf(secured.security, body ?? content), ...(archived ? ["instance_not_found"] : []), ...problems],
    };
    const handler = async (context: Context<E>) => {
      const { env, req } = context as unknown as Context<HttpEnv>;
      const by = context.get("caller");
      const valid = (part: string) => req.valid(part as never) as never;
      const asked: Asked<Params, Query, Body, E> = {
        ...{ env, by, param: valid("param"), query: valid("query"), context },
        archivedAt: null,
        body: (body && (await readBody(req, body, limits))) as z.output<Body>,
        get engine() {
          return context.get("engine");
        },
        get catalog() {
          return context.get("engine").catalog;
        },
        get key() {
          return idempotencyKey(req.header("idempotency-key"));
        },
      };
      if (plan && (asked.body as { dry_run: boolean }).dry_run) return context.json((await plan.run(asked)) as object, 200);
      const done = await (archived === undefined
        ? run(asked)
        : orArchived(env, by, req.param("id") ?? "", async (readable, archivedAt) =>
            run(Object.create(asked, { env: { value: readable }, archivedAt: { value: archivedAt } })),
          ));
      if (done instanceof Response) return done;
      const replayed = isRepeatable && (done as { replayed?: boolean }).replayed === true;
      return context.json(done as object, status, replayedHeader({ replayed }));
    };
    return { route, handler };
  };
}

export const operation = operationIn<HttpEnv>();
