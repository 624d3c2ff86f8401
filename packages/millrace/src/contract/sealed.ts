import { timingSafeEqual } from "node:crypto";
import { signed } from "./ids.ts";

/** Plain data as a text that only the deployment can have made, for this `purpose`. Nothing is stored. Errors: `config_invalid` without a secret. */
export function sealed(secret: string, purpose: string, data: object): string {
  const text = Buffer.from(JSON.stringify(data)).toString("base64url");
  return `${text}.${signed(secret, purpose, text)}`;
}

/** What such a text says; undefined for one that was made elsewhere, for another purpose, or changed. */
export function unsealed(secret: string, purpose: string, sealedText: string): unknown {
  const [text = "", proof = "", ...more] = sealedText.split(".");
  const [said, expected] = [Buffer.from(proof), Buffer.from(signed(secret, purpose, text))];
  if (more.length > 0 || said.length !== expected.length || !timingSafeEqual(said, expected)) return undefined;
  return JSON.parse(Buffer.from(text, "base64url").toString());
}
