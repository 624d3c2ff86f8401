#!/usr/bin/env bash
# Packages: stripe 23.1.0, standardwebhooks 1.1.1, svix 2.5.0.
# Guess: A secret that begins with whsec_ is a base64 key, as Standard Webhooks defines: the HMAC key is the decoded part after the prefix.
# Behaviour: Stripe uses the whole text, with its prefix, as the key. Standard Webhooks and Svix decode it.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
stripe: the key is the text with its prefix
standardwebhooks: the key is the decoded base64
svix: the key is the decoded base64
END

echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund stripe@23.1.0 standardwebhooks@1.1.1 svix@2.5.0

cat >run.mjs <<'END'
import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as Svix } from "svix";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const body = JSON.stringify({ id: "evt_1", object: "event", type: "invoice.paid" });
const at = 1_790_000_000;
const keys = {
  "the text with its prefix": secret,
  "the text without its prefix": secret.slice("whsec_".length),
  "the decoded base64": Buffer.from(secret.slice("whsec_".length), "base64"),
};
const show = (name, signature, text, encoding) => {
  const [key] = Object.entries(keys).find(([, key]) => createHmac("sha256", key).update(text).digest(encoding) === signature) ?? ["unknown"];
  console.log(`${name}: the key is ${key}`);
};

const header = new Stripe("sk_test_1").webhooks.generateTestHeaderString({ payload: body, secret, timestamp: at });
show("stripe", header.split("v1=")[1], `${at}.${body}`, "hex");
for (const [name, Library] of Object.entries({ standardwebhooks: Webhook, svix: Svix })) {
  const signature = new Library(secret).sign("msg_1", new Date(at * 1000), body);
  show(name, signature.split(",")[1], `msg_1.${at}.${body}`, "base64");
}
END

"${NODE:-node}" run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
