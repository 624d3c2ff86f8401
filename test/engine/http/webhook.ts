import { createExecutionContext } from "cloudflare:test";
import { createHmac } from "node:crypto";
import { handler } from "../../docs/examples/inbound.ts";
import { probeEnv } from "../harness.ts";

export const SECRETS = {
  STRIPE_SECRET: "whsec_new",
  GITHUB_SECRET: "It's a Secret",
  SLACK_SIGNING_SECRET: "8f742231b10e8888abcd99yyyzzz85a5",
  SHOP_SECRET: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
};
export const JSON_TYPE = { "content-type": "application/json" };
export const FORM = { "content-type": "application/x-www-form-urlencoded" };

export const hmac = (key: string | Buffer, text: string) => createHmac("sha256", key).update(text);
export const nowSeconds = () => Math.floor(Date.now() / 1000);

/** Signs as each sender does. A test compares the headers with those of the senders' libraries. */
export const sign = {
  stripe: (body: string, secret = SECRETS.STRIPE_SECRET, at = nowSeconds()) => ({
    "stripe-signature": `t=${at},v1=${hmac(secret, `${at}.${body}`).digest("hex")}`,
  }),
  github: (body: string, secret = SECRETS.GITHUB_SECRET) => ({ "x-hub-signature-256": `sha256=${hmac(secret, body).digest("hex")}` }),
  slack: (body: string, secret = SECRETS.SLACK_SIGNING_SECRET, at = nowSeconds()) => ({
    "x-slack-request-timestamp": String(at),
    "x-slack-signature": `v0=${hmac(secret, `v0:${at}:${body}`).digest("hex")}`,
  }),
  standard: (body: string, secret = SECRETS.SHOP_SECRET, at = nowSeconds(), id = "msg_1", prefix = "webhook") => ({
    [`${prefix}-id`]: id,
    [`${prefix}-timestamp`]: String(at),
    [`${prefix}-signature`]: `v1,${hmac(Buffer.from(secret.slice("whsec_".length), "base64"), `${id}.${at}.${body}`).digest("base64")}`,
  }),
};

export interface Sent {
  body: string;
  headers: Record<string, string>;
}

export async function send(source: string, { body, headers }: Sent, env: object = {}, door: Pick<typeof handler, "fetch"> = handler) {
  const request = new Request(`http://shop/inbound/${source}`, { method: "POST", body, headers });
  const response = await door.fetch(request, { ...probeEnv, ...SECRETS, ...env } as never, createExecutionContext());
  const text = await response.text();
  return { status: response.status, body: text.startsWith("{") ? JSON.parse(text) : text };
}

/** Stripe's event of a paid invoice. */
export function paid(id: string, invoice = id, more: object = {}) {
  const body = JSON.stringify({ id, object: "event", type: "invoice.paid", data: { object: { id: invoice, amount_paid: 1250 } }, ...more });
  return { body, headers: { ...JSON_TYPE, ...sign.stripe(body) } };
}

export const pushed = (delivery: string, event = "push") => {
  const body = JSON.stringify({ ref: "refs/heads/main", pusher: { name: "Zoë" } });
  return { body, headers: { ...JSON_TYPE, ...sign.github(body), "x-github-event": event, "x-github-delivery": delivery } };
};

export const ofSlack = (body: string, type: Record<string, string> = JSON_TYPE) => ({ body, headers: { ...type, ...sign.slack(body) } });
export const command = (trigger_id: string, text = "main & more") =>
  ofSlack(new URLSearchParams({ command: "/build", text, trigger_id }).toString(), FORM);

export function shipped(id: string, prefix = "webhook") {
  const body = JSON.stringify({ type: "invoice.paid", data: { object: { id, amount_paid: 1 } } });
  return { body, headers: { ...JSON_TYPE, ...sign.standard(body, undefined, undefined, id, prefix) } };
}
