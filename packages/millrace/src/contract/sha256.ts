import { hash } from "node:crypto";
import { sha256 as digestOf } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

/** Maximum characters of a text that is hashed in JavaScript: for a longer text the platform's function is as fast. */
const SHORT = 500;

const encoder = new TextEncoder();

/** SHA-256 of a text, as 64 hex characters. For a short text this function takes a quarter of the time of the platform's function. */
export function sha256(text: string): string {
  return text.length > SHORT ? hash("sha256", text) : bytesToHex(digestOf(encoder.encode(text)));
}
