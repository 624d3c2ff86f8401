import { describe, expect, it } from "vitest";
import { crmWebhookSecret, hubspotSignature } from "../../src/providers/hubspot-signature.ts";
import { isSignedByHubspot } from "./hubspot-signed.ts";

const SECRET = "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy";
const URL_SIGNED = "https://www.example.com/webhook_uri";
const BODY = '{"example_field":"example_value"}';
const AT = 1_660_000_000_000;
/** HMAC-SHA256 of `POST`, the URL, the body and the time, computed by another program. */
const SIGNATURE = "yTm9krWQbiTVFe7m13Mve5ZK0tIsIWSYwWjl02/XVQY=";

function request(changed: { method?: string; url?: string; signature?: string | null; timestamp?: string | null } = {}) {
  const { method = "POST", url = URL_SIGNED, signature = SIGNATURE, timestamp = String(AT) } = changed;
  const headers = new Headers();
  if (signature !== null) headers.set("x-hubspot-signature-v3", signature);
  if (timestamp !== null) headers.set("x-hubspot-request-timestamp", timestamp);
  return new Request(url, { method, headers });
}

describe("HubSpot's signature, version 3", () => {
  it("HubSpot's signature, version 3, equals the signature of another program", async () => {
    expect(hubspotSignature(SECRET, "POST", URL_SIGNED, BODY, String(AT))).toBe(SIGNATURE);
    expect(await isSignedByHubspot(request(), BODY, SECRET, AT)).toBe(true);
  });

  it("HubSpot's signature decodes twelve percent-encoded characters of the URL, and no others", () => {
    const url = `${URL_SIGNED}?a=x%40y%3Az%2F%21%24%27%28%29%2a%2C%3B%3F&b=%20%26`;
    expect(hubspotSignature(SECRET, "POST", url, BODY, String(AT))).toBe("XbG4cOWx23O++b7YLCmF6qx63Hw4+Vyn8pI63czlrkw=");
  });

  it.each([
    ["another method", request({ method: "PUT" }), BODY, AT],
    ["another address", request({ url: `${URL_SIGNED}/` }), BODY, AT],
    ["another body", request(), `${BODY} `, AT],
    ["another time", request({ timestamp: String(AT + 1) }), BODY, AT],
    ["a time five minutes ago", request(), BODY, AT + 300_001],
    ["a time five minutes ahead", request(), BODY, AT - 300_001],
    ["no time", request({ timestamp: null }), BODY, AT],
    ["a time that is not a number", request({ timestamp: "yesterday" }), BODY, AT],
    ["no signature", request({ signature: null }), BODY, AT],
    ["a shorter signature", request({ signature: SIGNATURE.slice(0, -1) }), BODY, AT],
    ["a signature in a different case", request({ signature: SIGNATURE.toLowerCase() }), BODY, AT],
  ])("the check of HubSpot's signature refuses %s", async (_, asked, body, now) => {
    expect(await isSignedByHubspot(asked, body, SECRET, now)).toBe(false);
  });

  it("the check of HubSpot's signature refuses another secret", async () => {
    expect(await isSignedByHubspot(request(), BODY, "another", AT)).toBe(false);
  });
});

describe("The secret of the CRM's messages", () => {
  it("the secret of the CRM's webhooks is the app's own secret if there is one", () => {
    expect(crmWebhookSecret({ CRM_WEBHOOK_SECRET: "s", CRM_URL: "https://api.hubapi.com", MILLRACE_KEY: "k" })).toBe("s");
  });

  it("the secret of the CRM's webhooks is derived from the key for the embedded CRM of a deployment", () => {
    const one = crmWebhookSecret({ MILLRACE_KEY: "k" });
    expect(one).toBe(crmWebhookSecret({ MILLRACE_KEY: "k", CRM_URL: "embedded:crm" }));
    expect(one).not.toBe(crmWebhookSecret({ MILLRACE_KEY: "l" }));
    expect(one).not.toContain("k".repeat(8));
    expect(one.length).toBeGreaterThan(40);
  });

  it.each([
    ["a real CRM's", { CRM_URL: "https://api.hubapi.com", MILLRACE_KEY: "k" }, "CRM_WEBHOOK_SECRET"],
    ["the embedded CRM's secret without a key to derive it from", { MILLRACE_KEY: "" }, "MILLRACE_KEY"],
  ])("a missing secret of the CRM's webhooks is an error: %s", (_, env, variable) => {
    expect(() => crmWebhookSecret(env)).toThrow(
      expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(variable) }),
    );
  });
});
