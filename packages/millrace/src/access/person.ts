import { createRemoteJWKSet, type JWTPayload, jwtVerify } from "jose";
import { MillraceError } from "../contract/errors.ts";
import type { AccessSettings } from "./person-settings.ts";
import type { Token } from "./tokens.ts";

/** A person whom Cloudflare Access has admitted. Such a caller has no stored token, and its name is an e-mail address. */
export type Person = Token;

/** Prefix of the caller id of a person whom Access has admitted. Ids of stored tokens never have this prefix. */
const PERSON = "access:";

/** True for the id of a person whom Access has admitted. */
export const isPersonId = (id: string): boolean => id.startsWith(PERSON);

/**
 * How long the team's public keys are cached. An assertion with an unknown key id causes an immediate fetch of the keys, at most every 30
 * s.
 */
const KEYS_FOR_MS = 600_000;
const LOOK_PAUSE_MS = 30_000;
const KEYS_WITHIN_MS = 5000;
/** Tolerated difference between the clocks of Cloudflare Access and this Worker, in seconds. */
const TOLERANCE_SECONDS = 30;
/** How long an isolate caches a verified assertion. The cache time ends earlier if the assertion expires earlier. */
const VERIFIED_FOR_MS = 60_000;
const MAX_VERIFIED = 1000;
const MAX_ACTOR = 100;

/** Key sets of Access teams, by the URL of the keys. */
const keysAt = new Map<string, ReturnType<typeof createRemoteJWKSet>>();
/** Verified Access assertions, oldest first. */
const verified = new Map<string, { payload: JWTPayload; until: number }>();

/** Codes of errors that mean that an Access assertion is invalid. Other errors do not mean that the assertion is invalid. */
const BAD: ReadonlySet<unknown> = new Set([
  "ERR_JWT_EXPIRED",
  "ERR_JWT_CLAIM_VALIDATION_FAILED",
  "ERR_JWT_INVALID",
  "ERR_JWS_INVALID",
  "ERR_JWS_SIGNATURE_VERIFICATION_FAILED",
  "ERR_JWKS_NO_MATCHING_KEY",
  "ERR_JWKS_MULTIPLE_MATCHING_KEYS",
  "ERR_JOSE_ALG_NOT_ALLOWED",
  "ERR_JOSE_NOT_SUPPORTED",
]);

/**
 * The person that an Access assertion (`Cf-Access-Jwt-Assertion`) identifies, with the person's rights. Undefined if the assertion is
 * invalid, expired or for another application. `beforeLook` is called before an assertion that is not cached is verified. An error of
 * `beforeLook` is thrown. Errors: `forbidden` for a person without a grant in this deployment, and `unavailable` if the team's keys cannot
 * be read.
 */
export async function findPerson(
  settings: AccessSettings,
  assertion: string,
  beforeLook: () => Promise<void>,
): Promise<Person | undefined> {
  const payload = await payloadOf(settings, assertion, beforeLook);
  if (payload === undefined) return undefined;
  const email = typeof payload.email === "string" ? payload.email.toLowerCase() : "";
  if (email === "" || email.length > MAX_ACTOR) {
    throw new MillraceError(
      "forbidden",
      "The Access assertion has no e-mail address of at most 100 characters. Programs must use a token.",
    );
  }
  const domain = email.slice(email.lastIndexOf("@"));
  const grant = settings.grants.get(email) ?? settings.grants.get(domain);
  if (grant === undefined) {
    throw new MillraceError(
      "forbidden",
      `Access admits ${email}, but this deployment grants no rights to it: add "${email}" or "${domain}" to ACCESS_GRANTS, and deploy.`,
    );
  }
  const id = `${PERSON}${email}`;
  return { id, rootId: id, tenantId: grant.tenant, actor: email, scopes: grant.scopes };
}

async function payloadOf(settings: AccessSettings, assertion: string, beforeLook: () => Promise<void>): Promise<JWTPayload | undefined> {
  const { issuer, audience, certsUrl } = settings;
  const known = `${certsUrl} ${audience} ${assertion}`;
  const before = verified.get(known);
  if (before && before.until > Date.now()) return before.payload;
  verified.delete(known);
  await beforeLook();
  try {
    const options = { issuer, audience, algorithms: ["RS256"], requiredClaims: ["exp", "iat"], clockTolerance: TOLERANCE_SECONDS };
    const { payload } = await jwtVerify(assertion, keysOf(certsUrl), options);
    const [oldest = ""] = verified.size >= MAX_VERIFIED ? verified.keys() : [];
    verified.delete(oldest);
    verified.set(known, { payload, until: Math.min(Date.now() + VERIFIED_FOR_MS, Number(payload.exp) * 1000) });
    return payload;
  } catch (error) {
    if (BAD.has((error as { code?: unknown }).code)) return undefined;
    throw new MillraceError(
      "unavailable",
      "The keys of the Access team cannot be read. Sign-in by Access fails until they can: try again later.",
      {
        cause: error,
      },
    );
  }
}

function keysOf(url: string): ReturnType<typeof createRemoteJWKSet> {
  const known = keysAt.get(url);
  if (known) return known;
  const options = { cacheMaxAge: KEYS_FOR_MS, cooldownDuration: LOOK_PAUSE_MS, timeoutDuration: KEYS_WITHIN_MS };
  const keys = createRemoteJWKSet(new URL(url), options);
  keysAt.set(url, keys);
  return keys;
}
