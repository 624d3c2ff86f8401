import canonicalize from "canonicalize";

const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";
/**
 * The first bytes of every AT Protocol record's CID (CIDv1, dag-cbor, sha-256, 32 bytes). These bytes make every CID begin with `bafyrei`.
 */
const CID_HEAD = [0x01, 0x71, 0x12, 0x20];

/**
 * Returns the content id of a record. Records with equal content have equal ids. The id has the format of a real CID. It is a hash of
 * canonical JSON, and a real CID is a hash of DAG-CBOR, so Bluesky would compute another id.
 */
export async function contentId(record: unknown): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonicalize(record)));
  return `b${base32([...CID_HEAD, ...new Uint8Array(digest)])}`;
}

function base32(bytes: number[]): string {
  const bits = bytes.map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/g) ?? []).map((chunk) => BASE32[Number.parseInt(chunk.padEnd(5, "0"), 2)]).join("");
}
