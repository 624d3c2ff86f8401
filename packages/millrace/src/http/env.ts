import type { Context } from "hono";
import type { AccessEnv } from "../access/person-settings.ts";
import type { Scope, Token } from "../access/tokens.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import type { Finder } from "../inspect/search/finder.ts";
import type { LimitEnv } from "../limits/client.ts";
import type { LockEnv } from "../locks/client.ts";
import type { Operator } from "../store/actions.ts";
import type { Schema } from "../store/schema.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { Problems } from "./problems.ts";

/** Without these bindings, requests are not limited. */
interface RequestLimits {
  /** Counts requests per token; also requests per address, unless the platform counts requests per address. */
  RATE_LIMIT?: LimitEnv["RATE_LIMIT"];
  /** Requests per token and 10 s. Default 2,000; 0 for no limit. */
  REQUESTS_PER_TOKEN?: string | number;
  /** The platform's counter per address, for requests without a token. */
  STRANGER_REQUESTS?: RateLimit;
  /** Requests per address and 10 s, unless the platform counts these requests. Default 200; 0 for no limit. */
  REQUESTS_PER_ADDRESS?: string | number;
}

/** The caller of a request, named as in the audit. */
export type Caller = Token & Operator;

/** The command that the console suggests to a new user. If it fails once, its retry shows more of the engine. */
export interface FirstCommand {
  readonly type: string;
  readonly payload: unknown;
  /** One sentence about the result of the command. */
  readonly why: string;
}

/** Lists of the app with members of a job. Each entry has the kind of the members and the path of the list. */
export type Elsewhere = (job: string) => { kind: string; url: string }[];

/** The catalog, and the options of `engineRoutes` that handlers read (see `EngineRoutesOptions`). */
export interface Engine {
  readonly catalog: Catalog;
  readonly finders: readonly Finder[];
  readonly elsewhere: Elsewhere;
  readonly schema: Schema;
  readonly firstCommand: FirstCommand | undefined;
}

export interface HttpEnv {
  Bindings: EngineEnv & RequestLimits & AccessEnv & LockEnv;
  Variables: {
    /** Set for every route under /v1. */
    caller: Caller;
    /** A route with the scopes of all alternatives that it accepts. Set when the scope check of the route begins. */
    needed: { readonly route: string; readonly scopes: readonly Scope[] };
    problems: Problems;
    /** Set for every route of the engine. */
    engine: Engine;
  };
}

/** A request with its bindings, but without the context's variables. */
export type Asked = Pick<Context<HttpEnv>, "env" | "req">;
