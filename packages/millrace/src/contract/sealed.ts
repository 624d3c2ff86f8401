import { timingSafeEqual } from "node:crypto";
import { signed } from "./ids.ts";

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
