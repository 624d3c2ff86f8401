import type { Context } from "hono";
import { readText } from "./body.ts";
import type { HttpEnv } from "./env.ts";
import { HttpRefusal } from "./problem.ts";
import { countStranger, refuseCountedStranger } from "./request-limits.ts";
import { isSigned, mayBeSigned, type WebhookScheme } from "./webhook-schemes.ts";

/** Time to read the body. Slack waits 3 s for the whole answer, HubSpot 5 s, and Stripe and GitHub at least 10 s. */
const WITHIN_MS = 5000;
const DEFAULT_MAX_BYTES = 1024 * 1024;

interface SignedBody {
  /** The sender. Its refused requests are counted per address. */
  readonly name: string;
  readonly scheme: Pick<WebhookScheme, "read">;
  /** Returns the deployment's keys for this sender, of which one must match. `signedText` throws the errors of this function. */
  keys(): readonly Uint8Array[];
  /** Maximum size of the body in bytes. Default: 1 MiB. */
  readonly maxBytes?: number | undefined;
}

/**
 * The body of a signed request, which is read only if the headers are valid, so that unsigned requests use no memory. Errors:
 * `signature_invalid`, `payload_too_large`, `invalid_json`, `rate_limited` for an address with many refusals.
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
