import type { Context, MiddlewareHandler } from "hono";
import { findToken, findTokenById } from "../access/find-token.ts";
import { findPerson, isPersonId, type Person } from "../access/person.ts";
import { type AccessEnv, type AccessSettings, accessSettings } from "../access/person-settings.ts";
import { readStreamToken, STREAM_PATH } from "../access/stream-token.ts";
import { SCOPES, type Token } from "../access/tokens.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { sayUnmeant } from "../contract/settings.ts";
import { assertSchemaOnce } from "../inspect/health.ts";
import { cellOf } from "../store/cells.ts";
import type { Schema } from "../store/schema.ts";
import type { Asked, HttpEnv } from "./env.ts";
import { setHeaders } from "./headers.ts";
import { countStranger, countToken, refuseCounted } from "./request-limits.ts";

const MINTED_BY = "Mint one with POST /v1/tokens (scope `tokens`), or with `npx millrace token` and access to the database.";

const INVALID_TOKEN = 'Bearer realm="millrace", error="invalid_token"';

/**
 * Authenticates a request by its token or, without one, by Cloudflare Access. `own`: scopes of the app. The error names missing migrations,
 * because no token can be checked without them.
 */
export const authenticate =
  (own: readonly string[], schema: Schema): MiddlewareHandler<HttpEnv> =>
  async (context, next) => {
    refuseCounted(context);
    const presented = context.req.header("authorization");
    const opener = presented === undefined ? await openerOf(context) : undefined;
    const person = presented === undefined && !opener ? await personOf(context, own) : undefined;
    const caller = opener ?? person ?? (await callerOf(context));
    if (!caller) {
      await assertSchemaOnce(context.env, schema);
      context.header("www-authenticate", presented ? INVALID_TOKEN : 'Bearer realm="millrace"');
      throw new MillraceError(
        "unauthorized",
        presented === undefined
          ? `Send a token: \`Authorization: Bearer mr_…\`. ${MINTED_BY}`
          : /^mr_\S*$/.test(presented)
            ? "`Bearer ` is missing before the token: send `Authorization: Bearer mr_…`."
            : `The token is unknown, wrong or expired. ${MINTED_BY}`,
      );
    }
    context.env = await cellOf(context.env, caller.tenantId);
    context.set("caller", { ...caller, tokenId: person ? undefined : caller.id });
    const counted = await countToken(context);
    await next();
    if (context.res.status !== 429) setHeaders(context, counted);
    // A handler that writes may answer 401, because the token was revoked after this isolate cached it.
    if (context.res.status === 401) context.header("www-authenticate", INVALID_TOKEN);
  };

/** The token of a request; undefined if it is missing or invalid. Errors: `rate_limited` if lookups for this address are too frequent. */
export async function callerOf(context: Asked): Promise<Token | undefined> {
  const [, bearer] = /^Bearer +(\S+)$/i.exec(context.req.header("authorization") ?? "") ?? [];
  return bearer === undefined ? undefined : await findToken(context.env, bearer, () => countStranger(context, "token"));
}

/** The caller of a stream with a token in its query, which only streams accept. Errors: `unauthorized` for an invalid token. */
async function openerOf(context: Asked): Promise<Token | undefined> {
  const { env, req } = context;
  const token = req.query("token");
  if (token === undefined || req.method !== "GET" || !STREAM_PATH.test(req.path)) return undefined;
  const opener = await readStreamToken(env, token, req.path, () => countStranger(context, "token"));
  if (typeof opener === "object") return opener;
  throw new MillraceError("unauthorized", OPENS_NOTHING[opener ?? "foreign"]);
}

const OPENS_NOTHING = {
  expired: "The stream token has expired: it is valid for 60 s. Mint another with POST /v1/stream-tokens.",
  revoked:
    "The token that minted this stream token was revoked or has expired. Mint another with POST /v1/stream-tokens and a valid token.",
  foreign: "The stream token is for another stream. Mint one for this path with POST /v1/stream-tokens.",
} as const;

export function lacksScope(scope: string): MillraceError {
  return new MillraceError("forbidden", `The token lacks the scope \`${scope}\`. Use a token with this scope.`);
}

/** The token of a request outside /v1, counted by its limit. Undefined without a valid token. Errors: `rate_limited`. */
export async function countedCaller(context: Context<HttpEnv>): Promise<Token | undefined> {
  const caller = await callerOf(context);
  if (!caller) return undefined;
  context.set("caller", caller);
  await countToken(context);
  return caller;
}

/** True while the caller of an open stream may read: the caller's token, or the token by which the stream token was created, is valid. */
export async function mayStillRead(context: Asked & Pick<Context<HttpEnv>, "var">): Promise<boolean> {
  const { caller } = context.var;
  if (isPersonId(caller.id)) return true;
  const look = () => countStranger(context, "token");
  return context.req.header("authorization") === undefined
    ? (await findTokenById(context.env, caller.id, look)) !== undefined
    : (await callerOf(context)) !== undefined;
}

/** The cookie of Access is not read: browsers also send cookies with requests that pages of other sites make. */
const HEADER = "cf-access-jwt-assertion";

/** Logs invalid variables of Access once, at the first request. */
export function sayAccess(env: AccessEnv, own: readonly string[]): void {
  try {
    settingsOf(env, own);
  } catch (error) {
    sayUnmeant(env, messageOf(error));
  }
}

/** Undefined without an assertion of Access, or if Access is not configured. Errors: `config_invalid`, `forbidden`, `unavailable`. */
async function personOf(context: Asked, own: readonly string[]): Promise<Person | undefined> {
  const assertion = context.req.header(HEADER);
  if (assertion === undefined) return undefined;
  const settings = settingsOf(context.env, own);
  if (settings === undefined) return undefined;
  assertOwnPage(context);
  return findPerson(settings, assertion, () => countStranger(context, "token"));
}

/** Refuses cross-site requests, because Access adds its header to every request with its cookie. Errors: `forbidden`. */
function assertOwnPage({ req }: Asked): void {
  if (req.method === "GET" || req.method === "HEAD") return;
  const site = req.header("sec-fetch-site");
  const origin = req.header("origin");
  const isForeign =
    site === undefined ? origin !== undefined && origin !== new URL(req.url).origin : site !== "same-origin" && site !== "none";
  if (isForeign)
    throw new MillraceError(
      "forbidden",
      "The request comes from a page of another origin. Users of Cloudflare Access can change data only from this origin.",
    );
}

let known: { words: string; settings: AccessSettings | undefined } | undefined;

function settingsOf(env: AccessEnv, own: readonly string[]): AccessSettings | undefined {
  const { ACCESS_TEAM, ACCESS_AUD, ACCESS_GRANTS, ACCESS_CERTS_URL } = env;
  if (ACCESS_TEAM === undefined && ACCESS_AUD === undefined && ACCESS_GRANTS === undefined) return undefined;
  const words = JSON.stringify([ACCESS_TEAM, ACCESS_AUD, ACCESS_GRANTS, ACCESS_CERTS_URL, own]);
  if (known?.words !== words) known = { words, settings: accessSettings(env, [...SCOPES, ...own]) };
  return known.settings;
}
