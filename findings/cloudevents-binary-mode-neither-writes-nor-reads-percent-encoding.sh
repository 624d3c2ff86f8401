#!/usr/bin/env bash
# Package: cloudevents 10.0.0, the JavaScript SDK.
# Guess: HTTP.binary percent-encodes an attribute's spaces, percent signs and non-ASCII characters, as the HTTP
#   binding asks, and HTTP.toEvent decodes them.
# Behaviour: The SDK does neither. A receiver that follows the binding decodes another source than the sender meant,
#   fetch refuses the header of a non-Latin subject, and the SDK reads a conforming sender's subject encoded.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
ce-source sent by HTTP.binary: /orders/a%20b
the same, decoded by the binding's rule: /orders/a b
the same event in structured mode: /orders/a%20b
ce-subject sent by HTTP.binary: price in €
that header given to fetch: TypeError
ce-subject of a conforming sender, read by HTTP.toEvent: price%20in%20%E2%82%AC
END

echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund cloudevents@10.0.0

cat >run.mjs <<'END'
import { CloudEvent, HTTP } from "cloudevents";

const event = new CloudEvent({ id: "1", type: "order.priced", source: "/orders/a%20b", subject: "price in €", data: {} });
const { headers } = HTTP.binary(event);
console.log(`ce-source sent by HTTP.binary: ${headers["ce-source"]}`);
console.log(`the same, decoded by the binding's rule: ${decodeURIComponent(headers["ce-source"])}`);
console.log(`the same event in structured mode: ${JSON.parse(HTTP.structured(event).body).source}`);
console.log(`ce-subject sent by HTTP.binary: ${headers["ce-subject"]}`);
let given = "taken";
try {
  new Request("http://127.0.0.1/", { method: "POST", headers });
} catch (error) {
  given = error.name;
}
console.log(`that header given to fetch: ${given}`);
const conforming = { ...headers, "ce-subject": "price%20in%20%E2%82%AC" };
console.log(`ce-subject of a conforming sender, read by HTTP.toEvent: ${HTTP.toEvent({ headers: conforming, body: "{}" }).subject}`);
END

"${NODE:-node}" run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
