import { createHash, randomBytes } from "node:crypto";

/** A token's text: `mr_`, its id, and its secret of 256 random bits. */
const TOKEN = /^mr_([0-9a-f]{16})_([A-Za-z0-9_-]{43})$/;

/** What the engine keeps of a token. */
interface KeptToken {
  readonly id: string;
  /** SHA-256 of the secret, as hex. One round is enough: there is nothing to guess. */
  readonly hash: string;
}

const SCOPE = /^[a-z][a-z0-9_:.-]{0,63}$/;

/** Whether a word can be a scope: a letter, then letters, digits and `_ : . -`, all lower case, at most 64. */
export function isScope(word: string): boolean {
  return SCOPE.test(word);
}

/** Makes a token. Its text is kept nowhere. */
export function newToken(): KeptToken & { text: string } {
  const id = randomBytes(8).toString("hex");
  const secret = randomBytes(32).toString("base64url");
  return { id, hash: hashOf(secret), text: `mr_${id}_${secret}` };
}

/** What is kept of a token with this text; undefined for one that is no token. */
export function keptOf(text: string): KeptToken | undefined {
  const [, id, secret] = TOKEN.exec(text) ?? [];
  return id && secret ? { id, hash: hashOf(secret) } : undefined;
}

function hashOf(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}
