import type { Context } from "hono";
import type { AccessEnv } from "../access/person-settings.ts";
import type { Scope, Token } from "../access/tokens.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import type { LimitEnv } from "../limits/client.ts";
import type { LockEnv } from "../locks/client.ts";
import type { Operator } from "../store/actions.ts";
import type { Problems } from "./problems.ts";
import type { BeforeRoute } from "./router.ts";

/** Limits of requests; without a binding there is none. */
interface RequestLimits {
  /** Counts for each token; and for each address, where the platform does not. */
  RATE_LIMIT?: LimitEnv["RATE_LIMIT"];
  /** Requests of one token in 10 seconds; default 2,000, and 0 for no limit. */
  REQUESTS_PER_TOKEN?: string | number;
  /** The platform's own count for each address, where no token is known. */
  STRANGER_REQUESTS?: RateLimit;
  /** Requests of one address in 10 seconds, where the platform does not count them; default 200, and 0 for no limit. */
  REQUESTS_PER_ADDRESS?: string | number;
}

/** Who asks, as the audit names them: by a token, or known otherwise. */
export type Caller = Token & Operator;

/** A route, and what it needs of whoever asks. */
export interface Needed {
  /** Its method and path, as the document has them. */
  readonly route: string;
  /** Scopes, each of which allows some of it, or any of which will do. */
  readonly scopes: readonly Scope[];
}

/** What every handler finds in its context. */
export interface HttpEnv {
  Bindings: EngineEnv & RequestLimits & AccessEnv & LockEnv;
  Variables: {
    /** Whose request it is; set for everything under /v1. */
    caller: Caller;
    /** What a route needs of its caller, once a caller has come as far as that. */
    needed: Needed;
    /** The codes that this deployment answers with. */
    problems: Problems;
    /** The checks of `engineRoutes` ahead of each described route. */
    beforeRoute?: BeforeRoute;
  };
}

/** A request with the bindings that it is answered by, whatever the app has besides. */
export type Asked = Pick<Context<HttpEnv>, "env" | "req">;
