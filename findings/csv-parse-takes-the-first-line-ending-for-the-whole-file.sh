#!/usr/bin/env bash
# Package: csv-parse 7.0.3.
# Guess: Without record_delimiter, each of LF and CRLF ends a record. Files that were joined from two systems read as
#   one.
# Behaviour: csv-parse takes the ending of the first line for all. LF first leaves a carriage return in the last
#   column of each CRLF line; CRLF first refuses the LF lines; with relax_column_count it joins two records and drops
#   a field. A list of endings reads both.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
LF first: [{"id":"1","name":"Ada\r"},{"id":"2","name":"Ben\r"}]
CRLF first: CSV_RECORD_INCONSISTENT_COLUMNS
CRLF first, relax_column_count: [{"id":"1","name":"Ada\n2"}]
CRLF first, record_delimiter ["\r\n","\n"]: [{"id":"1","name":"Ada"},{"id":"2","name":"Ben"}]
END

echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund csv-parse@7.0.3

cat >run.mjs <<'END'
import { parse } from "csv-parse/sync";

const tried = (text, options) => {
  try {
    return JSON.stringify(parse(text, { columns: true, ...options }));
  } catch (error) {
    return error.code;
  }
};
const crlfFirst = "id,name\r\n1,Ada\n2,Ben\n";
console.log(`LF first: ${tried("id,name\n1,Ada\r\n2,Ben\r\n")}`);
console.log(`CRLF first: ${tried(crlfFirst)}`);
console.log(`CRLF first, relax_column_count: ${tried(crlfFirst, { relax_column_count: true })}`);
const both = ["\r\n", "\n"];
console.log(`CRLF first, record_delimiter ${JSON.stringify(both)}: ${tried(crlfFirst, { record_delimiter: both })}`);
END

"${NODE:-node}" run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
