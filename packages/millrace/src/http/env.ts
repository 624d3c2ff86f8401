import type { Context } from "hono";
import type { AccessEnv } from "../access/person-settings.ts";
import type { Scope, Token } from "../access/tokens.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import type { LimitEnv } from "../limits/client.ts";
import type { LockEnv } from "../locks/client.ts";
import type { Operator } from "../store/actions.ts";
import type { Problems } from "./problems.ts";
import type { BeforeRoute } from "./router.ts";

/** Limits of requests; none without a binding. */
interface RequestLimits {
  /** Counts per token; and per address, unless the platform does. */
  RATE_LIMIT?: LimitEnv["RATE_LIMIT"];
  /** Requests per token and 10 s. Default 2,000; 0 for no limit. */
  REQUESTS_PER_TOKEN?: string | number;
  /** The platform's counter per address, for requests without a token. */
  STRANGER_REQUESTS?: RateLimit;
  /** Requests per address and 10 s, unless the platform counts. Default 200; 0 for no limit. */
  REQUESTS_PER_ADDRESS?: string | number;
}

/** The caller of a request, as the audit names it. */
export type Caller = Token & Operator;

export interface Needed {
  readonly route: string;
  /** All scopes of all alternatives. */
  readonly scopes: readonly Scope[];
}

/** Bindings and variables of every handler. */
export interface HttpEnv {
  Bindings: EngineEnv & RequestLimits & AccessEnv & LockEnv;
  Variables: {
    /** The caller; set for every route under /v1. */
    caller: Caller;
    /** Set when the scope check of a route begins. */
    needed: Needed;
    problems: Problems;
    /** Checks of `engineRoutes` before each described route. */
    beforeRoute?: BeforeRoute;
  };
}

/** A request with its bindings, whatever else the app's context contains. */
export type Asked = Pick<Context<HttpEnv>, "env" | "req">;
