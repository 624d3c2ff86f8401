#!/usr/bin/env bash
# Package: jose 6.2.18.
# Guess: createRemoteJWKSet reads the keys again when a token names a key that it does not have, and pauses after an
#   endpoint that fails.
# Behaviour: jose does the opposite. For 30 s after it has read the keys, it refuses the token of a new key without a
#   request, although the endpoint has that key. After a failed request, each token causes another request at once.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
token of the known key: verified, requests 1
the key is rotated; token of the new key: ERR_JWKS_NO_MATCHING_KEY, requests 1
the same with cooldownDuration 0: verified, requests 2
endpoint answers 503, three tokens: ERR_JOSE_GENERIC ERR_JOSE_GENERIC ERR_JOSE_GENERIC, requests 3
END

echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund jose@6.2.18

cat >run.mjs <<'END'
import { createRemoteJWKSet, customFetch, exportJWK, generateKeyPair, jwtVerify, SignJWT } from "jose";

async function keyNamed(kid) {
  const { publicKey, privateKey } = await generateKeyPair("ES256", { extractable: true });
  const token = await new SignJWT({}).setProtectedHeader({ alg: "ES256", kid }).setExpirationTime("1h").sign(privateKey);
  return { token, jwk: { ...(await exportJWK(publicKey)), kid } };
}
const [old, rotated] = [await keyNamed("old"), await keyNamed("new")];

function endpoint(options) {
  const at = { keys: [old.jwk], requests: 0, status: 200 };
  const answer = async () => {
    at.requests++;
    return Response.json({ keys: at.keys }, { status: at.status });
  };
  at.set = createRemoteJWKSet(new URL("https://keys.example/"), { [customFetch]: answer, ...options });
  at.verify = ({ token }) => jwtVerify(token, at.set).then(() => "verified", (error) => error.code);
  return at;
}
const usual = endpoint();
console.log(`token of the known key: ${await usual.verify(old)}, requests ${usual.requests}`);
usual.keys = [old.jwk, rotated.jwk];
console.log(`the key is rotated; token of the new key: ${await usual.verify(rotated)}, requests ${usual.requests}`);
const eager = endpoint({ cooldownDuration: 0 });
await eager.verify(old);
eager.keys = [old.jwk, rotated.jwk];
console.log(`the same with cooldownDuration 0: ${await eager.verify(rotated)}, requests ${eager.requests}`);
const failing = endpoint();
failing.status = 503;
const codes = [await failing.verify(old), await failing.verify(old), await failing.verify(old)];
console.log(`endpoint answers 503, three tokens: ${codes.join(" ")}, requests ${failing.requests}`);
END

"${NODE:-node}" run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
