import { findPerson, type Person } from "../access/person.ts";
import { type AccessEnv, type AccessSettings, accessSettings } from "../access/person-settings.ts";
import { SCOPES } from "../access/tokens.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { sayUnmeant } from "../contract/settings.ts";
import type { Asked } from "./env.ts";
import { countStranger } from "./request-limits.ts";

/** Where Access says whom it has let in. The cookie that it also sets is not read: pages of others would send it along. */
const HEADER = "cf-access-jwt-assertion";

/** Says at once, and once, what of the variables of Access cannot be meant. */
export function sayAccess(env: AccessEnv, own: readonly string[]): void {
  try {
    settingsOf(env, own);
  } catch (error) {
    sayUnmeant(env, messageOf(error));
  }
}

/**
 * The person whom Access has let in; undefined where it says nobody, or is not relied on here. Errors: `config_invalid`, `forbidden`,
 * `unavailable`.
 */
export async function personOf(context: Asked, own: readonly string[]): Promise<Person | undefined> {
  const assertion = context.req.header(HEADER);
  if (assertion === undefined) return undefined;
  const settings = settingsOf(context.env, own);
  if (settings === undefined) return undefined;
  assertOwnPage(context);
  return findPerson(settings, assertion, () => countStranger(context, "token"));
}

/**
 * Refuses what a browser was made to send by a page of somebody else: Access adds its header to whatever comes with its cookie. Errors:
 * `forbidden`.
 */
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

/** By what the variables say: an env is asked at each request. */
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
