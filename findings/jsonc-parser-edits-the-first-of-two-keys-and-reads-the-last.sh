#!/usr/bin/env bash
# Package: jsonc-parser 3.3.1.
# Guess: After `modify(text, path, value)` and `applyEdits`, `parse` reads the new value at the path.
# Behaviour: If an object has a key twice, `parse` reads the last one, as JSON.parse does, and `modify` and
#   `findNodeAtLocation` take the first one. The edit is written and has no effect. No error is reported.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
parse {"vars":{"LEVEL":"info"},"name":"shop"} errors 0
findNodeAtLocation LEVEL = debug
modify { "vars": { "LEVEL": "warn" }, "name": "shop", "vars": { "LEVEL": "info" } }
parse after the edit {"vars":{"LEVEL":"info"},"name":"shop"} errors 0
END

echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund jsonc-parser@3.3.1

cat >run.mjs <<'END'
import { createRequire } from "node:module";

const { applyEdits, findNodeAtLocation, modify, parse, parseTree } = createRequire(import.meta.url)("jsonc-parser");
const text = '{ "vars": { "LEVEL": "debug" }, "name": "shop", "vars": { "LEVEL": "info" } }';
const read = (from) => {
  const errors = [];
  const found = parse(from, errors);
  return `${JSON.stringify(found)} errors ${errors.length}`;
};
console.log("parse", read(text));
console.log("findNodeAtLocation LEVEL =", findNodeAtLocation(parseTree(text), ["vars", "LEVEL"]).value);
const edited = applyEdits(text, modify(text, ["vars", "LEVEL"], "warn", {}));
console.log("modify", edited);
console.log("parse after the edit", read(edited));
END

"${NODE:-node}" run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
