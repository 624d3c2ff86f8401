import type { Context } from "hono";
import { readText } from "./body.ts";
import type { HttpEnv } from "./env.ts";
import { HttpRefusal } from "./problem.ts";
import { countStranger, refuseCountedStranger } from "./request-limits.ts";
import { isSigned, mayBeSigned, type WebhookScheme } from "./webhook-schemes.ts";

/**
 * Time limit for reading the body of a webhook. Slack waits three seconds for the whole answer, HubSpot five seconds, and Stripe and GitHub
 * at least ten seconds.
 */
const WITHIN_MS = 5000;
const DEFAULT_MAX_BYTES = 1024 * 1024;

interface SignedBody {
  /** The name of the webhook's sender. Refused requests of each sender are counted per address. */
  readonly name: string;
  readonly scheme: Pick<WebhookScheme, "read">;
  /**
   * Returns the deployment's keys for this sender. One valid signature with one of these keys is sufficient. `signedText` throws the errors
   * of this function.
   */
  keys(): readonly Uint8Array[];
  /** Maximum size of the body in bytes. Default: 1 MiB. */
  readonly maxBytes?: number | undefined;
}

/**
 * The body of a signed request. The body is read only if the headers are valid, so that unsigned requests use no memory. Errors:
 * `signature_invalid`, `payload_too_large`, `invalid_json` for a body that is not UTF-8, `rate_limited` for an address with many
 * refusals.
 */
export async function signedText(
  context: Pick<Context<HttpEnv>, "env" | "req">,
  { name, scheme, keys, maxBytes }: SignedBody,
): Promise<string> {
  const { raw } = context.req;
  const countedAs = `signed/${name}`;
  refuseCountedStranger(context, countedAs);
  try {
    const request = scheme.read(raw);
    if (!mayBeSigned(request)) throw unsigned(name);
    const valid = keys();
    const text = await readText(raw, maxBytes ?? DEFAULT_MAX_BYTES, WITHIN_MS);
    if (await isSigned(request, text, valid)) return text;
    throw unsigned(name);
  } catch (error) {
    await countStranger(context, countedAs);
    throw error;
  }
}

function unsigned(sender: string): HttpRefusal {
  return new HttpRefusal("signature_invalid", "The signature is missing, wrong, or older than five minutes. The request was refused.", {
    // A 401 response must name an authentication scheme, and the schemes of webhooks have no registered names.
    "www-authenticate": `Webhook-Signature realm="${sender}"`,
  });
}
