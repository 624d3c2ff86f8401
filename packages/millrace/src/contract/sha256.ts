import { hash } from "node:crypto";
import { sha256 as digestOf } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

/** Longest text that is hashed in JavaScript, in characters: of longer ones the platform's own is as quick. */
const SHORT = 500;

const encoder = new TextEncoder();

/** SHA-256 of a text, as 64 hex characters. Of a short one in a quarter of the time that the platform's own takes to be asked. */
export function sha256(text: string): string {
  return text.length > SHORT ? hash("sha256", text) : bytesToHex(digestOf(encoder.encode(text)));
}
