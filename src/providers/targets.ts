import { errors, MillraceError } from "millrace";
import { connect, misconfigured, realUrl, required } from "./config.ts";
import { EMBEDDED_HANDLE, EMBEDDED_TOKEN } from "./credentials.ts";
import type { ProvidersEnv } from "./env.ts";
import { type Mastodon, mastodonAccount } from "./mastodon.ts";
import { httpPages, type Pages } from "./pages.ts";
import { publicUrl } from "./public-url.ts";
import { blueskySocial, type Social } from "./social.ts";
import { secretVariable, targetSecret } from "./target-secret.ts";
import type { Upstream } from "./upstream.ts";
import { wordpressPages } from "./wordpress.ts";
import { type X, xAccount } from "./x.ts";

/**
 * A site or an account of a brand. `secret` names the tenant's secret, which contains the address and the credential of the site or
 * account.
 */
interface Target {
  tenantId: string;
  brand: string;
  name: string;
  secret?: string | undefined;
}

export interface SiteTarget extends Target {
  kind: "deployment" | "store" | "wordpress" | "http";
}

/**
 * Without `secret`, an account on Bluesky is the account of the deployment's variables, and an account on any other platform is on the
 * embedded server.
 */
export interface SocialTarget extends Target {
  platform: "bluesky" | "mastodon" | "x";
}

const PAGE_STORE = { name: "pages", at: "PAGES_URL", secret: "PAGES_TOKEN" } as const;
const EMBEDDED_STORE = "embedded";

/**
 * Returns the site of the deployment's variables: a page store over HTTP, WordPress, or the embedded store on R2. @throws `config_invalid`
 */
export function pages(env: ProvidersEnv): Pages {
  const url = realUrl(env.PAGES_URL);
  const provider = env.PAGES_PROVIDER || "http";
  if (provider === "wordpress") {
    if (!url) throw misconfigured('PAGES_PROVIDER is "wordpress", but PAGES_URL does not say where the site is.');
    return wordpressPages(connect(env, PAGE_STORE), storeName(provider, url), required(env, "PAGES_USER"));
  }
  if (provider !== "http") throw misconfigured(`PAGES_PROVIDER is "${provider}". Set it to "http" or "wordpress".`);
  const upstream = connect(env, PAGE_STORE);
  return url ? httpPages(upstream, storeName(provider, url)) : httpPages(upstream, EMBEDDED_STORE, "store");
}

/** Returns the page store of a brand's site. @throws `config_invalid` */
export function siteTarget(env: ProvidersEnv, site: SiteTarget): Pages {
  if (site.kind === "deployment") return pages(env);
  if (site.kind === "store") return pages({ ...env, PAGES_URL: "", PAGES_PROVIDER: "" });
  if (site.kind === "wordpress") {
    const { url, user, token } = targetSecret(env, site.kind, site.tenantId, secretOf(site));
    return wordpressPages(connected(site, url, token), storeName(site.kind, url), user);
  }
  const { url, token } = targetSecret(env, site.kind, site.tenantId, secretOf(site));
  return httpPages(connected(site, url, token), storeName(site.kind, url));
}

/**
 * True if a repeated publication on a site replaces the page. If a publication is not repeatable, the workflow must search the site before
 * a repetition.
 */
export function isRepeatable(env: ProvidersEnv, kind: SiteTarget["kind"]): boolean {
  if (kind !== "deployment") return kind !== "wordpress";
  try {
    return pages(env).repeatable;
  } catch {
    // The step itself reports an invalid configuration of the store, so that an operator sees the error and an undo stops.
    return true;
  }
}

/** Returns the URL that a page will get. The result is undefined if the store assigns URLs, as all stores except the embedded store do. */
export function pageAddress(env: ProvidersEnv, kind: SiteTarget["kind"], path: string): string | undefined {
  const isEmbedded = kind === "store" || (kind === "deployment" && !realUrl(env.PAGES_URL));
  return isEmbedded ? publicUrl(env, `pages/${path}`) : undefined;
}

/**
 * Returns the account that the deployment's variables configure: an account on Bluesky, on another AT Protocol server, or on the embedded
 * server. @throws `config_invalid`
 */
export function social(env: ProvidersEnv): Social {
  const handle = realUrl(env.SOCIAL_URL) ? required(env, "SOCIAL_HANDLE") : env.SOCIAL_HANDLE || EMBEDDED_HANDLE;
  return blueskySocial(connect(env, { name: "social", at: "SOCIAL_URL", secret: "SOCIAL_PASSWORD" }), handle);
}

type Accounts = { bluesky: Social; mastodon: Mastodon; x: X };

/** Returns the connector of a brand's account, by the account's platform. @throws `config_invalid` */
export function accountTarget<Platform extends keyof Accounts>(
  env: ProvidersEnv,
  account: SocialTarget & { platform: Platform },
): Accounts[Platform] {
  const made: { [One in keyof Accounts]: () => Accounts[One] } = {
    bluesky() {
      if (account.secret === undefined) return social(env);
      const { url, handle, password } = targetSecret(env, "bluesky", account.tenantId, account.secret);
      return blueskySocial(connected(account, url, password), handle);
    },
    mastodon() {
      if (account.secret === undefined) return mastodonAccount(embedded(env, account, "mastodon"));
      const { url, token } = targetSecret(env, "mastodon", account.tenantId, account.secret);
      return mastodonAccount(connected(account, url, token));
    },
    x() {
      if (account.secret === undefined) {
        const upstream = embedded(env, account, "x");
        const [consumerKey, consumerSecret, tokenSecret] = [EMBEDDED_TOKEN, EMBEDDED_TOKEN, EMBEDDED_TOKEN];
        return xAccount(upstream, { consumerKey, consumerSecret, token: upstream.credential.value, tokenSecret });
      }
      const { url, api_key, api_secret, access_token, access_token_secret } = targetSecret(env, "x", account.tenantId, account.secret);
      const keys = { consumerKey: api_key, consumerSecret: api_secret, token: access_token, tokenSecret: access_token_secret };
      return xAccount(connected(account, url, access_token), keys);
    },
  };
  return made[account.platform]();
}

/**
 * Returns the reason why a site or account cannot be reached with this deployment's secrets; undefined if the site or account can be
 * reached.
 */
export function faultOf(env: ProvidersEnv, target: SiteTarget | SocialTarget): string | undefined {
  try {
    if ("kind" in target) siteTarget(env, target);
    else accountTarget(env, target);
    return undefined;
  } catch (error) {
    if (error instanceof MillraceError && error.code === "config_invalid") return errors.messageOf(error);
    throw error;
  }
}

function secretOf({ name, secret }: SiteTarget): string {
  if (secret !== undefined) return secret;
  throw misconfigured(
    `The site "${name}" names no secret. Add the name of the one with its address and token to the settings of the brand.`,
  );
}

function connected({ tenantId, name, secret = "" }: Target, url: string, value: string): Upstream {
  return { name, url, credential: { variable: secretVariable(tenantId, secret), value }, fetch: (request) => fetch(request) };
}

/** Returns the embedded server of a platform. The server has a separate account for each account of a brand. */
function embedded({ UPSTREAMS }: ProvidersEnv, { tenantId, brand, name, secret = name }: Target, platform: "mastodon" | "x"): Upstream {
  if (!UPSTREAMS) {
    throw misconfigured(`The account "${name}" names no secret, and the service binding UPSTREAMS is not set. Set one of them.`);
  }
  return {
    name,
    url: `https://${platform}.embedded`,
    credential: { variable: secretVariable(tenantId, secret), value: [EMBEDDED_TOKEN, tenantId, brand, name].join(".") },
    fetch: (request) => UPSTREAMS.fetch(request),
  };
}

/**
 * Returns the name of a page store: its kind, host and path. The name omits the scheme, because the scheme does not identify a store. The
 * name also omits a password, because the name is not secret.
 */
function storeName(kind: string, url: string): string {
  const { host, pathname } = new URL(url);
  return `${kind} ${host}${pathname.replace(/\/+$/, "")}`;
}
