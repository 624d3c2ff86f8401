import { hash } from "node:crypto";
import { sha256 as digestOf } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

/** Maximum characters of a string that is hashed in JavaScript. For a longer string the platform's function is as fast. */
const SHORT = 500;

const encoder = new TextEncoder();

/** SHA-256 of a string, as 64 hex characters. For a short string this function takes a quarter of the time of the platform's function. */
export function sha256(text: string): string {
  return text.length > SHORT ? hash("sha256", text) : bytesToHex(digestOf(encoder.encode(text)));
}
