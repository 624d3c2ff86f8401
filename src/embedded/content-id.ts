import canonicalize from "canonicalize";

const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";
/** The head of every AT Protocol record's CID (CIDv1, dag-cbor, sha-256, 32 bytes), because of which all CIDs begin with `bafyrei`. */
const CID_HEAD = [0x01, 0x71, 0x12, 0x20];

/**
 * Returns the content id of a record: records with equal content have equal ids. The id has a real CID's shape, but hashes canonical JSON
 * where AT Protocol hashes DAG-CBOR, so it is not the id Bluesky would give.
 */
export async function contentId(record: unknown): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonicalize(record)));
  return `b${base32([...CID_HEAD, ...new Uint8Array(digest)])}`;
}

function base32(bytes: number[]): string {
  const bits = bytes.map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/g) ?? []).map((chunk) => BASE32[Number.parseInt(chunk.padEnd(5, "0"), 2)]).join("");
}
