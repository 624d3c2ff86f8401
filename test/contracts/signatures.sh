#!/usr/bin/env bash
# Makes signatures.json: webhooks that the official libraries of their senders signed, or verified (Slack's only verifies).
# The libraries have 40 MB, so the tests read their output. Run it with: test/contracts/signatures.sh >test/contracts/signatures.json
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts \
  stripe@23.1.0 @octokit/webhooks-methods@6.0.0 @slack/bolt@5.1.0 standardwebhooks@1.1.1 svix@2.5.0 >&2

cat >run.mjs <<'END'
import assert from "node:assert";
import { createHmac } from "node:crypto";
import { sign, verify } from "@octokit/webhooks-methods";
import bolt from "@slack/bolt";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as Svix } from "svix";

const AT = 1_790_000_000;
const JSON_TYPE = { "content-type": "application/json" };
const made = {};

const invoice = { id: "in_1", object: "invoice", amount_paid: 1250, currency: "usd" };
const paid = { id: "evt_1", object: "event", api_version: "2026-09-30", created: AT, pending_webhooks: 1, type: "invoice.paid", data: { object: invoice } };
{
  const secret = "whsec_stripe_test";
  const body = JSON.stringify(paid, null, 2);
  const header = new Stripe("sk_test_1").webhooks.generateTestHeaderString({ payload: body, secret, timestamp: AT });
  made.stripe = { by: "stripe 23.1.0", at: AT, secret, body, headers: { ...JSON_TYPE, "stripe-signature": header } };
}
{
  const secret = "It's a Secret to Everybody";
  const body = JSON.stringify({ ref: "refs/heads/main", after: "4d2ab4e76d0d405d17d1a0f2b8a6071394e3ab40", pusher: { name: "Zoë" } });
  const signature = await sign(secret, body);
  assert(await verify(secret, body, signature));
  const headers = { ...JSON_TYPE, "x-github-event": "push", "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958" };
  made.github = { by: "@octokit/webhooks-methods 6.0.0", at: AT, secret, body, headers: { ...headers, "x-hub-signature-256": signature } };
}
const slack = (body, type) => {
  const secret = "8f742231b10e8888abcd99yyyzzz85a5";
  const time = String(AT);
  const signature = `v0=${createHmac("sha256", secret).update(`v0:${time}:${body}`).digest("hex")}`;
  const headers = { "x-slack-request-timestamp": time, "x-slack-signature": signature };
  const isValid = (text) =>
    bolt.isValidSlackRequest({ signingSecret: secret, body: text, headers, nowMilliseconds: AT * 1000 });
  assert(isValid(body) && !isValid(`${body} `));
  return { by: "@slack/bolt 5.1.0", at: AT, secret, body, headers: { "content-type": type, ...headers } };
};
const form = (fields) => new URLSearchParams(fields).toString();
const FORM = "application/x-www-form-urlencoded";
const mention = { type: "app_mention", user: "U1", text: "<@U2> build main", channel: "C1" };
made.slack = slack(JSON.stringify({ token: "t", team_id: "T1", type: "event_callback", event_id: "Ev1", event_time: AT, event: mention }), "application/json");
made.slackCommand = slack(form({ team_id: "T1", command: "/build", text: "main & more", trigger_id: "13345224609.738474920.8088930838d88f008e0" }), FORM);
made.slackAction = slack(form({ payload: JSON.stringify({ type: "block_actions", trigger_id: "12466734323.1395872398", actions: [{ value: "main" }] }) }), FORM);
made.slackChallenge = slack(JSON.stringify({ token: "t", challenge: "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P", type: "url_verification" }), "application/json");

const standard = (by, Library, prefix) => {
  const secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
  const id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
  const body = JSON.stringify({ type: "invoice.paid", timestamp: new Date(AT * 1000).toISOString(), data: { object: invoice } });
  const signature = new Library(secret).sign(id, new Date(AT * 1000), body);
  const headers = { [`${prefix}-id`]: id, [`${prefix}-timestamp`]: String(AT), [`${prefix}-signature`]: signature };
  return { by, at: AT, secret, body, headers: { ...JSON_TYPE, ...headers } };
};
made.standard = standard("standardwebhooks 1.1.1", Webhook, "webhook");
made.svix = standard("svix 2.5.0", Svix, "svix");

console.log(JSON.stringify(made, null, 2));
END

"${NODE:-node}" run.mjs
