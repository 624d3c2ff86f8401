import type { MiddlewareHandler } from "hono";
import { findToken, type Scope, type Token } from "../access/tokens.ts";
import { MillraceError } from "../contract/errors.ts";
import type { Asked, HttpEnv } from "./env.ts";
import { countStranger, countToken, refuseCounted } from "./request-limits.ts";

/** Said to whoever has no good token. */
const MINTED_BY = "Who has one with the scope `tokens` mints others by POST /v1/tokens; who can reach the database, by `npm run token`.";

/** Lets nobody in without a good token. Whose data a request reads and writes follows from its token and from nothing else. */
export const authenticate: MiddlewareHandler<HttpEnv> = async (context, next) => {
  refuseCounted(context);
  const presented = context.req.header("authorization");
  const caller = await callerOf(context);
  if (!caller) {
    context.header("www-authenticate", presented ? 'Bearer realm="millrace", error="invalid_token"' : 'Bearer realm="millrace"');
    throw new MillraceError(
      "unauthorized",
      presented === undefined
        ? `Send a token: \`Authorization: Bearer mr_…\`. ${MINTED_BY}`
        : /^mr_\S*$/.test(presented)
          ? "`Bearer ` is missing before the token: send `Authorization: Bearer mr_…`."
          : `The token is unknown, wrong or expired. ${MINTED_BY}`,
    );
  }
  context.set("caller", caller);
  await countToken(context);
  await next();
};

/** The token a request carries, if it is good. Errors: `rate_limited` for an address whose tokens had to be looked up too often. */
export async function callerOf(context: Asked): Promise<Token | undefined> {
  const [, bearer] = /^Bearer +(\S+)$/i.exec(context.req.header("authorization") ?? "") ?? [];
  return bearer === undefined ? undefined : await findToken(context.env, bearer, () => countStranger(context, "token"));
}

/** What a route says about the token it needs, to the router and to the document: every one of these scopes. */
export function needs(...scopes: Scope[]) {
  return needing([scopes]);
}

/** The same where one of these scopes will do. */
export function needsOneOf(...scopes: Scope[]) {
  return needing(scopes.map((scope) => [scope]));
}

/** Alternatives: a token needs every scope of one of them. */
function needing(alternatives: readonly Scope[][]): { middleware: MiddlewareHandler<HttpEnv>; security: { bearer: string[] }[] } {
  return {
    security: alternatives.map((scopes) => ({ bearer: scopes })),
    middleware: async (context, next) => {
      const lacking = (scopes: readonly Scope[]) => scopes.find((one) => !context.var.caller.scopes.includes(one));
      if (alternatives.every(lacking)) {
        const scope = lacking(alternatives[0] ?? []);
        context.header("www-authenticate", `Bearer realm="millrace", error="insufficient_scope", scope="${scope}"`);
        throw new MillraceError("forbidden", `The token lacks the scope \`${scope}\`. Use one that has it.`);
      }
      await next();
    },
  };
}
