import * as z from "zod";
import { misconfigured } from "./config.ts";
import { jsonOf } from "./json.ts";

/**
 * A secret contains both an address and the credential for that address. A setting contains only the secret's name, so a setting cannot
 * send the credential to another address.
 */
const address = z
  .string()
  .refine(isAddress, "must be an http(s) address without a user, a query or a fragment")
  .transform((url) => url.replace(/\/+$/, ""));
const word = z.string().min(1).max(2000);

/** The schema of a secret's value, by the kind of site or account. */
const SECRETS = {
  wordpress: z.strictObject({ url: address, user: word, token: word }),
  http: z.strictObject({ url: address, token: word }),
  bluesky: z.strictObject({ url: address, handle: word, password: word }),
  mastodon: z.strictObject({ url: address, token: word }),
  x: z.strictObject({
    url: address.default("https://api.x.com"),
    api_key: word,
    api_secret: word,
    access_token: word,
    access_token_secret: word,
  }),
};
type SecretKind = keyof typeof SECRETS;
export type TargetSecret<Kind extends SecretKind> = z.infer<(typeof SECRETS)[Kind]>;

/**
 * Returns the name of the variable that contains a tenant's secret. For example, `TARGET_ACME__BLOG` contains the secret `blog` of the
 * tenant `acme`. In the variable's name, lower case letters become upper case, digits are unchanged, and every other byte becomes `_` and
 * two hex digits. Therefore the first `__` is the end of the tenant's name, and no two tenants share a variable.
 */
export function secretVariable(tenantId: string, secret: string): string {
  return `TARGET_${encoded(tenantId)}__${encoded(secret)}`;
}

/**
 * Reads the secret of a site or account. Errors: `config_invalid` if the secret is missing or malformed. The error contains no part of the
 * secret's value.
 */
export function targetSecret<Kind extends SecretKind>(env: object, kind: Kind, tenantId: string, secret: string): TargetSecret<Kind> {
  const variable = secretVariable(tenantId, secret);
  const value = (env as Record<string, unknown>)[variable];
  const schema: z.ZodType = SECRETS[kind];
  const form = `{ ${Object.keys(SECRETS[kind].shape).join(", ")} } as JSON`;
  if (typeof value !== "string" || value === "") {
    throw misconfigured(`The secret ${variable} is not set. Set it to ${form}: wrangler secret put ${variable}.`);
  }
  const json = jsonOf(value);
  const read = schema.safeParse(json);
  if (read.success) return read.data as TargetSecret<Kind>;
  throw misconfigured(`The secret ${variable} is not valid: ${faultIn(json, read.error)}. Set it to ${form}.`);
}

/** Errors name only known fields, because an unknown name could be a part of a secret. */
function faultIn(json: unknown, { issues: [issue] }: z.ZodError): string {
  if (json === undefined) return "it is not JSON";
  if (issue?.code === "unrecognized_keys") return "it has an unknown field";
  const field = issue?.path.join(".") || "it";
  return issue?.code === "custom" ? `${field} ${issue.message}` : `${field} is missing, empty, or of the wrong type`;
}

function encoded(name: string): string {
  return Array.from(new TextEncoder().encode(name), (byte) => {
    const character = String.fromCharCode(byte);
    return /[a-z0-9]/.test(character) ? character.toUpperCase() : `_${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");
}

function isAddress(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) return false;
  return url.username === "" && url.password === "" && url.search === "" && url.hash === "";
}
