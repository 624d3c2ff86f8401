import { inDevelopment } from "../contract/development.ts";
import { isTenant } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { isScope } from "../contract/token.ts";

/** The variables for Cloudflare Access. The engine accepts callers from Access only if `ACCESS_TEAM` and `ACCESS_AUD` are set. */
export interface AccessEnv {
  /** The team's name, as in `https://<team>.cloudflareaccess.com`. */
  ACCESS_TEAM?: string;
  /** The audience tag of the Access application that protects this Worker. */
  ACCESS_AUD?: string;
  /** The rights of each person or domain, as JSON: `{ "ada@example.com": { "tenant": "acme", "scopes": ["read"] }, "@example.com": … }`. */
  ACCESS_GRANTS?: string | Record<string, unknown>;
  /** The URL of the Access team's public keys. This variable is only meant for development. */
  ACCESS_CERTS_URL?: string;
}

/** The rights of a person whom Access has admitted. */
export interface PersonGrant {
  readonly tenant: string;
  readonly scopes: readonly string[];
}

export interface AccessSettings {
  readonly issuer: string;
  readonly audience: string;
  readonly certsUrl: string;
  /** The rights of persons, by e-mail address, or by `@` and its domain, in lower case. */
  readonly grants: ReadonlyMap<string, PersonGrant>;
}

const TEAM = /^[a-z0-9][a-z0-9-]{0,62}$/;
const AUDIENCE = /^[0-9a-f]{64}$/;
const WHO = /^[^@\s]*@[^@\s]+\.[^@\s]+$/;

/**
 * The settings of Cloudflare Access. Undefined if Access is not used. `scopes` contains all known scopes. Errors: `config_invalid` with the
 * name of the invalid variable. With invalid settings, the engine accepts no person.
 */
export function accessSettings(env: AccessEnv, scopes: readonly string[]): AccessSettings | undefined {
  const { ACCESS_TEAM: team = "", ACCESS_AUD: audience = "", ACCESS_GRANTS: grants, ACCESS_CERTS_URL: certs } = env;
  if (team === "" && audience === "" && grants === undefined) return undefined;
  assertThat(
    TEAM.test(team),
    'ACCESS_TEAM is the name of your team, as in https://<team>.cloudflareaccess.com, without the address: "acme".',
  );
  assertThat(
    AUDIENCE.test(audience),
    "ACCESS_AUD is the audience tag of the Access application, 64 hex digits: copy it from the application's overview in Zero Trust.",
  );
  assertThat(
    certs === undefined || inDevelopment(env),
    "ACCESS_CERTS_URL is only for local engines: unset it. The keys come from the team's address.",
  );
  const issuer = `https://${team}.cloudflareaccess.com`;
  return { issuer, audience, certsUrl: certs ?? `${issuer}/cdn-cgi/access/certs`, grants: readGrants(grants, scopes) };
}

const SHAPE = 'ACCESS_GRANTS is an object as JSON, such as {"ada@example.com":{"tenant":"acme","scopes":["read"]},"@example.com":{…}}';

function readGrants(given: AccessEnv["ACCESS_GRANTS"], known: readonly string[]): Map<string, PersonGrant> {
  const grants = parsed(given);
  assertThat(typeof grants === "object" && grants !== null && !Array.isArray(grants), `${SHAPE}.`);
  return new Map(
    Object.entries(grants as Record<string, unknown>).map(([who, grant]) => [who.toLowerCase(), readGrant(who, grant, known)]),
  );
}

function readGrant(who: string, grant: unknown, known: readonly string[]): PersonGrant {
  const { tenant, scopes } = (grant ?? {}) as Partial<Record<keyof PersonGrant, unknown>>;
  assertThat(WHO.test(who), `ACCESS_GRANTS names "${who}", which is neither an e-mail address nor @ and a domain.`);
  assertThat(
    typeof tenant === "string" && isTenant(tenant),
    `ACCESS_GRANTS gives "${who}" no valid tenant: use up to 64 lower case letters, digits, - or _.`,
  );
  assertThat(Array.isArray(scopes) && scopes.length > 0, `ACCESS_GRANTS gives "${who}" no scopes: list some of ${known.join(", ")}.`);
  const odd = (scopes as unknown[]).find((scope) => !isScope(String(scope)) || !known.includes(String(scope)));
  assertThat(
    odd === undefined,
    `ACCESS_GRANTS gives "${who}" the scope "${String(odd)}", which does not exist. Scopes are: ${known.join(", ")}.`,
  );
  return { tenant, scopes: scopes as string[] };
}

function parsed(given: AccessEnv["ACCESS_GRANTS"]): unknown {
  try {
    return typeof given === "string" ? JSON.parse(given) : given;
  } catch {
    return undefined;
  }
}

function assertThat(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new MillraceError("config_invalid", otherwise);
}
