/** The signatures of a webhook request, read from the headers alone. */
export interface SignedRequest {
  /** HMAC-SHA256 values, of which one must match: a sender sends several while it rotates its secret. */
  readonly signatures: readonly Uint8Array[];
  /** The text that the sender signed. */
  text(body: string): string;
  /** The time of the signature in seconds. Undefined for a scheme that signs no time. */
  readonly at?: number;
}

/** How a sender signs and names its webhooks. */
export interface WebhookScheme {
  /** The name of the header that contains the signature, for the OpenAPI document. */
  readonly header: string;
  /** Reads the signatures of a request. A missing or malformed header gives no signatures. */
  read(request: Request): SignedRequest;
  /** The bytes of a secret's key. Default: its UTF-8 bytes. */
  key?(secret: string): Uint8Array;
  /** Returns the sender's id of a verified webhook, and the webhook's type. */
  nameOf(body: unknown, headers: Headers): { id: unknown; type: unknown };
  /** The answer to a request that only tests the address; undefined for every other request. */
  greet?(body: unknown, headers: Headers): string | undefined;
  /** True for a sender that shows the answer to its user, and so gets an empty answer. */
  readonly isSilent?: boolean;
}

/** Stripe's scheme: the header `Stripe-Signature` contains an HMAC in hex over time and body. The webhook's id is `event.id`. */
export const stripe: WebhookScheme = {
  header: "Stripe-Signature",
  read({ headers }) {
    const parts = (headers.get("stripe-signature") ?? "").split(",").map((part) => part.trim().split("="));
    const valuesOf = (name: string) => parts.flatMap(([key, value = ""]) => (key === name ? [value] : []));
    const [time = ""] = valuesOf("t");
    return { signatures: valuesOf("v1").flatMap(ofHex), text: (body) => `${time}.${body}`, at: seconds(time) };
  },
  nameOf(body) {
    const { id, type } = fieldsOf(body);
    return { id, type };
  },
};

/** GitHub's scheme: `X-Hub-Signature-256` contains an HMAC in hex over the body alone. The webhook's id is `X-GitHub-Delivery`. */
export const github: WebhookScheme = {
  header: "X-Hub-Signature-256",
  read({ headers }) {
    return { signatures: ofHex(headers.get("x-hub-signature-256")?.replace("sha256=", "")), text: (body) => body };
  },
  nameOf: (_, headers) => ({ id: headers.get("x-github-delivery"), type: headers.get("x-github-event") }),
  greet: (_, headers) => (headers.get("x-github-event") === "ping" ? "pong" : undefined),
};

/** Slack's scheme: an HMAC in hex over version, time and body. The webhook's id is `event_id`, or `trigger_id` for commands and actions. */
export const slack: WebhookScheme = {
  header: "X-Slack-Signature",
  read({ headers }) {
    const time = headers.get("x-slack-request-timestamp") ?? "";
    const signatures = ofHex(headers.get("x-slack-signature")?.replace("v0=", ""));
    return { signatures, text: (body) => `v0:${time}:${body}`, at: seconds(time) };
  },
  nameOf(body) {
    const { event_id, trigger_id, event, command, type } = fieldsOf(body);
    return { id: event_id ?? trigger_id, type: fieldsOf(event).type ?? command ?? type };
  },
  greet(body) {
    const { type, challenge } = fieldsOf(body);
    return type === "url_verification" ? String(challenge) : undefined;
  },
  isSilent: true,
};

/** The scheme of Standard Webhooks with a symmetric secret (`whsec_`, `v1`), also with the headers of Svix. Its id is `webhook-id`. */
export const standardWebhooks: WebhookScheme = {
  header: "webhook-signature",
  read({ headers }) {
    const time = standardHeader(headers, "timestamp");
    const signatures = standardHeader(headers, "signature")
      .split(" ")
      .flatMap((one) => (one.startsWith("v1,") ? ofBase64(one.slice(3)) : []));
    return { signatures, text: (body) => `${standardHeader(headers, "id")}.${time}.${body}`, at: seconds(time) };
  },
  key: (secret) => bytesOf(secret.replace("whsec_", ""), "base64"),
  nameOf: (body, headers) => ({ id: standardHeader(headers, "id"), type: fieldsOf(body).type }),
};

function standardHeader(headers: Headers, name: string): string {
  return headers.get(`webhook-${name}`) ?? headers.get(`svix-${name}`) ?? "";
}

export function keyOf({ key }: WebhookScheme, secret: string): Uint8Array {
  return key?.(secret) ?? new TextEncoder().encode(secret);
}

/** The largest difference between the signed time and now, because senders round to seconds and their clocks differ. */
const TOLERANCE_SECONDS = 300;
/** Maximum number of compared signatures of a request, because each is compared with each secret, over the whole body. */
const MOST_SIGNATURES = 10;

/** The checks that are possible before the body is read. */
export function mayBeSigned({ signatures, at }: SignedRequest): boolean {
  const isRecent = at === undefined || Math.abs(Date.now() / 1000 - at) <= TOLERANCE_SECONDS;
  return isRecent && signatures.length > 0 && signatures.length <= MOST_SIGNATURES;
}

/** WebCrypto compares in constant time. */
export async function isSigned({ signatures, text }: SignedRequest, body: string, keys: readonly Uint8Array[]): Promise<boolean> {
  const signed = new TextEncoder().encode(text(body));
  for (const bytes of keys) {
    const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const signature of signatures) if (await crypto.subtle.verify("HMAC", key, signature, signed)) return true;
  }
  return false;
}

function ofHex(text = ""): Uint8Array[] {
  return /^[0-9a-f]{64}$/i.test(text) ? [bytesOf(text, "hex")] : [];
}

function ofBase64(text: string): Uint8Array[] {
  return /^[A-Za-z0-9+/]{43}=$/.test(text) ? [bytesOf(text, "base64")] : [];
}

function bytesOf(text: string, encoding: "base64" | "hex"): Uint8Array {
  return new Uint8Array(Buffer.from(text, encoding));
}

/** NaN for an invalid time, so that its check refuses the signature. */
function seconds(text: string): number {
  return /^\d{1,12}$/.test(text) ? Number(text) : Number.NaN;
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
