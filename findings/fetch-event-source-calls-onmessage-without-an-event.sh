#!/usr/bin/env bash
# Packages: @microsoft/fetch-event-source 2.0.1, compared with eventsource 5.1.5, which follows the HTML standard.
# Guess: `onmessage` is called for the events that an EventSource dispatches.
# Behaviour: `onmessage` is also called for a block of only a comment, of only `retry`, of only an id, and of a name
#   without data, each time with the data "". An `onmessage` that parses JSON throws at a server's first keep-alive
#   comment. The id of an earlier block is not kept: an event without an own id has the id "".
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
EventSource tick "{\"n\":1}" id "5"
EventSource message "last" id "7"
onmessage "" "" id ""
onmessage "" "" id ""
onmessage "tick" "{\"n\":1}" id "5"
onmessage "" "" id "7"
onmessage "tick" "" id ""
onmessage "" "last" id ""
END

echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund @microsoft/fetch-event-source@2.0.1 eventsource@5.1.5

cat >run.mjs <<'END'
import { createServer } from "node:http";
import { fetchEventSource } from "@microsoft/fetch-event-source";
import { EventSource } from "eventsource";

const blocks = [": keep-alive", "retry: 60000", 'id: 5\nevent: tick\ndata: {"n":1}', "id: 7", "event: tick", "data: last"];
const server = createServer((_, response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.end(blocks.map((block) => `${block}\n\n`).join(""));
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const url = `http://127.0.0.1:${server.address().port}/`;

const source = new EventSource(url);
await new Promise((heard) => {
  for (const name of ["tick", "message"])
    source.addEventListener(name, ({ data, lastEventId }) => {
      console.log("EventSource", name, JSON.stringify(data), "id", JSON.stringify(lastEventId));
      if (data === "last") heard();
    });
});
source.close();

// The package is written for browsers. These are the parts of a page that it reads.
Object.assign(globalThis, { window: globalThis, document: { hidden: false, addEventListener() {}, removeEventListener() {} } });
await fetchEventSource(url, {
  onmessage: ({ event, data, id }) => console.log("onmessage", JSON.stringify(event), JSON.stringify(data), "id", JSON.stringify(id)),
});
server.closeAllConnections();
server.close();
END

"${NODE:-node}" run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
