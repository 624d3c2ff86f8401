import { createRemoteJWKSet, type JWTPayload, jwtVerify } from "jose";
import { MillraceError } from "../contract/errors.ts";
import type { AccessSettings } from "./person-settings.ts";
import type { Token } from "./tokens.ts";

/** Somebody whom Cloudflare Access has let in: a caller without a token, named by an e-mail address. */
export type Person = Token;

/** How the id of such a caller begins: no row of a token has one. */
const PERSON = "access:";

/** True for the id of a person whom Access has let in. */
export const isPersonId = (id: string): boolean => id.startsWith(PERSON);

/** How long keys are kept before they are asked for again; an unknown one is looked for at once, but not twice in half a minute. */
const KEYS_FOR_MS = 600_000;
const LOOK_PAUSE_MS = 30_000;
const KEYS_WITHIN_MS = 5000;
/** Clocks differ. */
const TOLERANCE_SECONDS = 30;
/** How long an isolate goes on trusting an assertion that it has verified, within its own time. */
const VERIFIED_FOR_MS = 60_000;
const MAX_VERIFIED = 1000;
const MAX_ACTOR = 100;

/** The keys of teams, by where they are. */
const keysAt = new Map<string, ReturnType<typeof createRemoteJWKSet>>();
/** Assertions that were good, oldest first. */
const verified = new Map<string, { payload: JWTPayload; until: number }>();

/** What is wrong with an assertion itself: everything else that fails says nothing of who asks. */
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
 * Who stands behind an assertion of Access (`Cf-Access-Jwt-Assertion`), and what they may do; undefined for one that is wrong, expired or
 * not for this application. `beforeLook` is called before anything is verified that this isolate has not verified lately; what it throws is
 * thrown. Errors: `forbidden` for somebody whom the deployment grants nothing; `unavailable` where the team's keys cannot be read.
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
      "Access let this in without an e-mail address of at most 100 characters: programs come with a token.",
    );
  }
  const domain = email.slice(email.lastIndexOf("@"));
  const grant = settings.grants.get(email) ?? settings.grants.get(domain);
  if (grant === undefined) {
    throw new MillraceError(
      "forbidden",
      `Access knows ${email}, and this deployment grants them nothing: add "${email}" or "${domain}" to ACCESS_GRANTS, and deploy.`,
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
    throw new MillraceError("unavailable", "The keys of the Access team cannot be read now: nobody comes in by it until they can.", {
      cause: error,
    });
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
