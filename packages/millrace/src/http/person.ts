import { findPerson, type Person } from "../access/person.ts";
import { type AccessEnv, type AccessSettings, accessSettings } from "../access/person-settings.ts";
import { SCOPES } from "../access/tokens.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { sayUnmeant } from "../contract/settings.ts";
import type { Asked } from "./env.ts";
import { countStranger } from "./request-limits.ts";

/**
 * The header with the assertion of Cloudflare Access. The cookie of Access is not read: browsers also send cookies with requests that pages
 * of other sites make.
 */
const HEADER = "cf-access-jwt-assertion";

/** Logs invalid variables of Access once, at the first request. */
export function sayAccess(env: AccessEnv, own: readonly string[]): void {
  try {
    settingsOf(env, own);
  } catch (error) {
    sayUnmeant(env, messageOf(error));
  }
}

/**
 * The user whom Access has authenticated. Undefined without an assertion, or if Access is not configured. Errors: `config_invalid`,
 * `forbidden`, `unavailable`.
 */
export async function personOf(context: Asked, own: readonly string[]): Promise<Person | undefined> {
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

const known = new Map<string, AccessSettings | undefined>();

function settingsOf(env: AccessEnv, own: readonly string[]): AccessSettings | undefined {
  const { ACCESS_TEAM, ACCESS_AUD, ACCESS_GRANTS, ACCESS_CERTS_URL } = env;
  if (ACCESS_TEAM === undefined && ACCESS_AUD === undefined && ACCESS_GRANTS === undefined) return undefined;
  const words = JSON.stringify([ACCESS_TEAM, ACCESS_AUD, ACCESS_GRANTS, ACCESS_CERTS_URL, own]);
  if (!known.has(words)) {
    const settings = accessSettings(env, [...SCOPES, ...own]);
    known.clear();
    known.set(words, settings);
  }
  return known.get(words);
}
