import type { WebhookScheme } from "millrace/http";

/** HMAC in base64: header `X-Shopify-Hmac-Sha256`, over the body alone. */
export const shopify: WebhookScheme = {
  header: "X-Shopify-Hmac-Sha256",
  read: ({ headers }) => ({
    // A signature of another length is not equal, so its form needs no check.
    signatures: [new Uint8Array(Buffer.from(headers.get("x-shopify-hmac-sha256") ?? "", "base64"))],
    text: (body) => body,
  }),
  nameOf: (_, headers) => ({ id: headers.get("x-shopify-event-id"), type: headers.get("x-shopify-topic") }),
};
