#!/usr/bin/env bash
# Package: croner 11.0.1, on node 26.10.0 for its time zones.
# Guess: A time of day inside the gap of a clock change runs right after the gap, in each time zone.
# Behaviour: croner does that for a gap at 02:00 (Europe/Berlin) and for one that begins at midnight (Asia/Beirut). A
#   gap that ends at midnight (America/Nuuk, 27 March 2027, 23:00 to 24:00) loses the day: a yearly job of 23:59 runs
#   a year later.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
Europe/Berlin 30 2 28 3 *: 2027-03-28T01:00:00.000Z
Asia/Beirut 30 0 28 3 *: 2027-03-27T22:00:00.000Z
America/Nuuk 59 23 27 3 *: 2028-03-28T00:59:00.000Z
America/Nuuk 59 23 * * *: 2027-03-27T01:59:00.000Z 2027-03-29T00:59:00.000Z
END

echo '{ "private": true, "allowScripts": { "node": true } }' >package.json
npm install --silent --no-audit --no-fund croner@11.0.1 node@26.10.0

cat >run.mjs <<'END'
import { Cron } from "croner";

const times = (timezone, pattern, count, after) => {
  const dates = new Cron(pattern, { timezone }).nextRuns(count, new Date(after));
  console.log(`${timezone} ${pattern}: ${dates.map((date) => date.toISOString()).join(" ")}`);
};
times("Europe/Berlin", "30 2 28 3 *", 1, "2027-01-01T00:00:00Z");
times("Asia/Beirut", "30 0 28 3 *", 1, "2027-01-01T00:00:00Z");
times("America/Nuuk", "59 23 27 3 *", 1, "2027-01-01T00:00:00Z");
times("America/Nuuk", "59 23 * * *", 2, "2027-03-26T12:00:00Z");
END

node_modules/.bin/node run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
