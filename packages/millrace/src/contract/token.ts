import { randomBytes, timingSafeEqual } from "node:crypto";
import { sha256, signed } from "./ids.ts";

/**
 * The text of a token: `mr_`, its id, and its secret of 256 random bits. Outside the first cell, the id begins with `x` and the three digits
 * of its cell.
 */
const TOKEN = /^mr_([0-9a-f]{16}|x\d{3}[0-9a-f]{12})_([A-Za-z0-9_-]{43})$/;

/** The part of a token that is stored. */
interface KeptToken {
  readonly id: string;
  /** SHA-256 of the token's secret, as hex. Hashing once is enough, because a random secret cannot be guessed. */
  readonly hash: string;
}

const SCOPE = /^[a-z][a-z0-9_:.-]{0,63}$/;

/** True for a valid scope: a letter, then letters, digits and `_ : . -`, all lower case, at most 64 characters. */
export function isScope(word: string): boolean {
  return SCOPE.test(word);
}

/** Creates a token. The token's text is not stored. */
export function newToken(cell = 1): KeptToken & { text: string } {
  const id = cell === 1 ? randomBytes(8).toString("hex") : `x${String(cell).padStart(3, "0")}${randomBytes(6).toString("hex")}`;
  const secret = randomBytes(32).toString("base64url");
  return { id, hash: sha256(secret), text: `mr_${id}_${secret}` };
}

/** The stored part of a token with this text; undefined for a string that is no token. */
export function keptOf(text: string): KeptToken | undefined {
  const [, id, secret] = TOKEN.exec(text) ?? [];
  return id && secret ? { id, hash: sha256(secret) } : undefined;
}

/** The cell in which a token is stored. */
export function cellOfToken(id: string): number {
  return id.startsWith("x") ? Number(id.slice(1, 4)) : 1;
}

/**
 * Signs plain data for a `purpose`, without storage. Only the deployment can create such a signed string. Errors: `config_invalid` without
 * a secret.
 */
export function sealed(secret: string, purpose: string, data: object): string {
  const text = Buffer.from(JSON.stringify(data)).toString("base64url");
  return `${text}.${signed(secret, purpose, text)}`;
}

/** The data of a signed string; undefined if the string was changed, or signed by another deployment or for another purpose. */
export function unsealed(secret: string, purpose: string, sealedText: string): unknown {
  const [text = "", proof = "", ...more] = sealedText.split(".");
  const [said, expected] = [Buffer.from(proof), Buffer.from(signed(secret, purpose, text))];
  if (more.length > 0 || said.length !== expected.length || !timingSafeEqual(said, expected)) return undefined;
  return JSON.parse(Buffer.from(text, "base64url").toString());
}
