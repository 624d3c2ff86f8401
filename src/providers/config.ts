import { MillraceError } from "millrace";
import { EMBEDDED_TOKEN } from "./credentials.ts";
import type { ProvidersEnv } from "./env.ts";
import type { Upstream } from "./upstream.ts";

type Binding = "UPSTREAMS" | "EMBEDDED_CRM" | "KEY_PROXY";
type Variable = Exclude<keyof ProvidersEnv, Binding | "AI" | "RATE_LIMIT">;

interface Reached {
  /** The display name of the upstream, such as `search`. */
  name: string;
  /** The name of the variable with the upstream's URL. */
  at: Variable;
  /** The name of the variable with the upstream's secret. */
  secret: Variable;
  /** The binding of the embedded program that replaces the upstream. Default `UPSTREAMS`. */
  embedded?: Binding;
  /** The tenant of the call. A key proxy needs the tenant to select credentials. */
  tenantId?: string | undefined;
}

/** Returns the configured upstream, which is an external program or an embedded program. Errors: `config_invalid`. */
export function connect(env: ProvidersEnv, { name, at, secret, embedded = "UPSTREAMS", tenantId }: Reached): Upstream {
  const url = realUrl(env[at]);
  if (url === undefined) {
    const binding = env[embedded];
    if (!binding) throw misconfigured(`${at} is not set, and neither is the service binding ${embedded}. Set one of them.`);
    return {
      name,
      url: `https://${name}.embedded`,
      credential: { variable: secret, value: env[secret] || EMBEDDED_TOKEN },
      fetch: (request) => binding.fetch(request),
    };
  }
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? "")) throw misconfigured(`${at} is not an http(s) address.`);
  const { KEY_PROXY: proxy } = env;
  if (proxy === undefined || tenantId === undefined) {
    return { name, url, credential: { variable: secret, value: required(env, secret) }, fetch: (request) => fetch(request) };
  }
  return {
    name,
    url,
    credential: { variable: "KEY_PROXY", value: "key-proxy" },
    fetch(request) {
      request.headers.set("millrace-tenant", tenantId);
      return proxy.fetch(request);
    },
  };
}

/** Returns the URL of an external program; undefined for an embedded program. */
export function realUrl(url: string | undefined): string | undefined {
  return !url || url.startsWith("embedded:") ? undefined : url;
}

/** Returns the value of a variable with a fixed list of allowed values; the first allowed value if the variable is not set. */
export function oneOf<Word extends string>(env: ProvidersEnv, variable: Variable, words: readonly [Word, ...Word[]]): Word {
  const said = env[variable];
  const word = said ? words.find((known) => known === said) : words[0];
  if (!word) throw misconfigured(`${variable} is "${said}". Set it to one of: ${words.join(", ")}.`);
  return word;
}

/** Returns the value of a variable of the deployment. Errors: `config_invalid` if the variable is not set. */
export function required(env: ProvidersEnv, variable: Variable): string {
  const value = env[variable];
  if (!value) throw misconfigured(`${variable} is not set. Set it with: wrangler secret put ${variable} (locally: a line in .dev.vars).`);
  return value;
}

export function misconfigured(message: string): MillraceError {
  return new MillraceError("config_invalid", message);
}
