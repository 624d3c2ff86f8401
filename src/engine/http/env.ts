import type { Context } from "hono";
import type { Token } from "../access/tokens.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import type { Problems } from "./problems.ts";

/** Limits of requests; without a binding there is none. */
interface RequestLimits {
  /** For each token. */
  TOKEN_REQUESTS?: RateLimit;
  /** For each address, where no token is known. */
  STRANGER_REQUESTS?: RateLimit;
}

/** What every handler finds in its context. */
export interface HttpEnv {
  Bindings: EngineEnv & RequestLimits;
  Variables: {
    /** Whose request it is; set for everything under /v1. */
    caller: Token;
    /** The codes that this deployment answers with. */
    problems: Problems;
  };
}

/** A request with the bindings that it is answered by, whatever the app has besides. */
export type Asked = Pick<Context<HttpEnv>, "env" | "req">;
