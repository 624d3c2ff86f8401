const ALPHABET = "234567abcdefghijklmnopqrstuvwxyz";
const LENGTH = 13;

/**
 * Returns the record key of a post: the TID (13 characters) for its time and its name. The same arguments always give the same key, so a
 * repeated post replaces the earlier copy. The key must be a TID. Servers also store posts under other keys and return success, but Bluesky
 * never shows such posts (bluesky-social/social-app#8654).
 *
 * @param createdAt the post's time, ISO 8601
 * @param name the stable name of the logical post, such as its idempotency key
 */
export async function recordKey(createdAt: string, name: string): Promise<string> {
  const hash = new DataView(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(name)));
  // A TID is 53 bits of microseconds and 10 bits of clock id. A date has only milliseconds, so the name of the post determines the 3 digits
  // of microseconds and the clock id. Two names in one millisecond collide with a probability of one in a million.
  const micros = BigInt(Date.parse(createdAt)) * 1000n + BigInt(hash.getUint32(0) % 1000);
  const bits = (micros << 10n) | BigInt(hash.getUint32(4) % 1024);
  return Array.from({ length: LENGTH }, (_, place) => ALPHABET[Number((bits >> BigInt(5 * (LENGTH - 1 - place))) & 31n)]).join("");
}
