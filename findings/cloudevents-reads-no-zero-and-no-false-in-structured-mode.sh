#!/usr/bin/env bash
# Package: cloudevents 10.0.0, the JavaScript SDK.
# Guess: An event's data is the same after HTTP.structured and HTTP.binary, for each JSON value.
# Behaviour: In structured mode the SDK sends 0, false and null, and reads them as no data. In binary mode it reads 0
#   and false, reads null as a text, refuses true, and turns a text that looks like JSON into an object.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
0: structured sent with data, read undefined; binary read 0
false: structured sent with data, read undefined; binary read false
null: structured sent with data, read undefined; binary read "null"
true: structured sent with data, read true; binary read refused
"{\"a\":1}": structured sent with data, read "{\"a\":1}"; binary read {"a":1}
END

echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund cloudevents@10.0.0

cat >run.mjs <<'END'
import { CloudEvent, HTTP } from "cloudevents";

const read = (message) => {
  try {
    return JSON.stringify(HTTP.toEvent(message).data);
  } catch {
    return "refused";
  }
};
for (const data of [0, false, null, true, '{"a":1}']) {
  const event = new CloudEvent({ id: "1", type: "t", source: "/s", datacontenttype: "application/json", data });
  const structured = HTTP.structured(event);
  const sent = "data" in JSON.parse(structured.body) ? "with" : "without";
  console.log(`${JSON.stringify(data)}: structured sent ${sent} data, read ${read(structured)}; binary read ${read(HTTP.binary(event))}`);
}
END

"${NODE:-node}" run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
