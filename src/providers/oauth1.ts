/** The keys of an app and of one of its users, by OAuth 1.0a. */
export interface OAuth1Keys {
  consumerKey: string;
  consumerSecret: string;
  token: string;
  tokenSecret: string;
}

/**
 * A request to sign, with the parameters that the signature includes: the parameters of the query and of a form body. A JSON body has no
 * such parameters.
 */
export interface SignedRequest {
  method: string;
  /** The URL of the request without its query. */
  url: string;
  parameters?: Record<string, string>;
}

/** Returns the header `Authorization` of a request (RFC 5849, HMAC-SHA1). The nonce and the time of the header are new in every request. */
export async function oauth1Header(keys: OAuth1Keys, request: SignedRequest): Promise<string> {
  const own = {
    oauth_consumer_key: keys.consumerKey,
    oauth_nonce: crypto.randomUUID().replaceAll("-", ""),
    oauth_signature_method: "HMAC-SHA1",
    oauth_timestamp: String(Math.floor(Date.now() / 1000)),
    oauth_token: keys.token,
    oauth_version: "1.0",
  };
  const all = { ...own, oauth_signature: await oauth1Signature(keys, request, own) };
  return `OAuth ${Object.entries(all)
    .map(([name, value]) => `${escaped(name)}="${escaped(value)}"`)
    .join(", ")}`;
}

/** Computes the signature of a request with these `oauth_` parameters. */
export async function oauth1Signature(
  { consumerSecret, tokenSecret }: Pick<OAuth1Keys, "consumerSecret" | "tokenSecret">,
  { method, url, parameters = {} }: SignedRequest,
  own: Record<string, string>,
): Promise<string> {
  const pairs = Object.entries({ ...parameters, ...own })
    .map(([name, value]) => `${escaped(name)}=${escaped(value)}`)
    .sort();
  const base = [method, url, pairs.join("&")].map(escaped).join("&");
  const encoder = new TextEncoder();
  const secret = encoder.encode(`${escaped(consumerSecret)}&${escaped(tokenSecret)}`);
  const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-1" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, encoder.encode(base))).toBase64();
}

/** Parses the parameters of a header `Authorization: OAuth …`; returns undefined for another header. */
export function oauth1Parameters(header: string | undefined): Record<string, string> | undefined {
  const [, listed] = /^OAuth (.+)$/.exec(header ?? "") ?? [];
  if (listed === undefined) return undefined;
  const pairs = listed.split(",").map((pair) => /^\s*([^=]+)="([^"]*)"\s*$/.exec(pair) ?? []);
  return Object.fromEntries(pairs.map(([, name = "", value = ""]) => [decodeURIComponent(name), decodeURIComponent(value)]));
}

/** Escapes every character except the unreserved ones (RFC 5849, 3.6). */
function escaped(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
}
