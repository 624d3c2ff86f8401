#!/usr/bin/env bash
# Packages: standardwebhooks 1.1.1, svix 2.5.0.
# Guess: webhook.verify(body, request.headers) verifies a signed Request, and throws only for a wrong signature.
# Behaviour: verify() reads a plain object: for the Headers of a Request it throws "Missing required headers". In standardwebhooks
#   it also parses: a signed body that is text and not JSON throws a SyntaxError. Svix verifies that body.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
standardwebhooks, plain object: verified
standardwebhooks, Headers of the Request: WebhookVerificationError: Missing required headers
standardwebhooks, plain object, text: SyntaxError
svix, plain object: verified
svix, Headers of the Request: WebhookVerificationError: Missing required headers
svix, plain object, text: verified
END

echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund standardwebhooks@1.1.1 svix@2.5.0

cat >run.mjs <<'END'
import { Webhook } from "standardwebhooks";
import { Webhook as Svix } from "svix";

const at = new Date();
for (const [name, Library] of Object.entries({ standardwebhooks: Webhook, svix: Svix })) {
  const webhook = new Library("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  const sent = (body) => {
    const signature = webhook.sign("msg_1", at, body);
    const headers = { "webhook-id": "msg_1", "webhook-timestamp": String(Math.floor(at / 1000)), "webhook-signature": signature };
    return new Request("http://localhost", { method: "POST", body, headers });
  };
  const show = (what, body, headers) => {
    try {
      webhook.verify(body, headers);
      console.log(`${name}, ${what}: verified`);
    } catch (error) {
      console.log(`${name}, ${what}: ${error instanceof SyntaxError ? "SyntaxError" : `${error.constructor.name}: ${error.message}`}`);
    }
  };
  const { headers } = sent('{"type":"ping"}');
  show("plain object", '{"type":"ping"}', Object.fromEntries(headers));
  show("Headers of the Request", '{"type":"ping"}', headers);
  show("plain object, text", "hello", Object.fromEntries(sent("hello").headers));
}
END

"${NODE:-node}" run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
