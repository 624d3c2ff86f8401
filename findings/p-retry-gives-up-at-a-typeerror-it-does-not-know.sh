#!/usr/bin/env bash
# Package: p-retry 9.0.0.
# Guess: p-retry calls the function again after each error, unless it is an AbortError or shouldRetry answers false.
# Behaviour: A TypeError is tried again only if its text is one of a list of browsers' network errors. Another
#   TypeError, and a thrown value that is no Error, end the retries after one call, and shouldRetry is not asked.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
Error: 3 calls
TypeError "fetch failed": 3 calls
TypeError "x is not iterable": 1 call
the same, shouldRetry answers true: 1 call, shouldRetry asked 0 times
a thrown Response: 1 call, rejects with TypeError
END

echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund p-retry@9.0.0

cat >run.mjs <<'END'
import pRetry from "p-retry";

async function calls(thrown, options) {
  let count = 0;
  let rejected;
  const fails = () => {
    count++;
    throw thrown;
  };
  await pRetry(fails, { retries: 2, minTimeout: 1, ...options }).catch((error) => {
    rejected = error;
  });
  return { said: count === 1 ? "1 call" : `${count} calls`, rejected };
}
console.log(`Error: ${(await calls(new Error("refused"))).said}`);
console.log(`TypeError "fetch failed": ${(await calls(new TypeError("fetch failed"))).said}`);
console.log(`TypeError "x is not iterable": ${(await calls(new TypeError("x is not iterable"))).said}`);
let asked = 0;
const shouldRetry = () => ++asked > 0;
const told = await calls(new TypeError("x is not iterable"), { shouldRetry });
console.log(`the same, shouldRetry answers true: ${told.said}, shouldRetry asked ${asked} times`);
const response = await calls(new Response("busy", { status: 503 }));
console.log(`a thrown Response: ${response.said}, rejects with ${response.rejected.name}`);
END

"${NODE:-node}" run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
