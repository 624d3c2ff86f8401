import { createHash, randomBytes } from "node:crypto";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { grantToken } from "../../engine/store/tokens.ts";
import { asText } from "../token/sql-text.ts";
import { shown } from "./wrangler.ts";

const TOKEN = /^mr_([0-9a-f]{16})_([A-Za-z0-9_-]{43})$/;
const TENANT = "acme";
const ACTOR = "local";
const SCOPES = ["enqueue", "read", "operate", "embedded", "unattributed", "tokens"];

/** The token of a local engine, kept in a file only its owner reads; made once. */
export function localToken(file: string): string {
  const kept = read(file);
  if (kept !== undefined) return kept;
  const token = newToken();
  rmSync(file, { force: true });
  writeFileSync(file, `${token}\n`, { flag: "wx", mode: 0o600 });
  return token;
}

/**
 * What curl is given to be let in, as people of this checkout paste it: terminals are read by others, and pasted elsewhere, so the token
 * stays in its file.
 */
export function authOption(file: string): string {
  const path = shown(file).startsWith("..") ? file : shown(file);
  const quoted = /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
  return `-H "Authorization: Bearer $(cat ${quoted})"`;
}

export function newToken(): string {
  return `mr_${randomBytes(8).toString("hex")}_${randomBytes(32).toString("base64url")}`;
}

/** What the engine keeps of a token: its id, and a hash of its secret. */
export function storedAs(token: string): { id: string; hash: string } {
  const [, id = "", secret = ""] = TOKEN.exec(token) ?? [];
  return { id, hash: createHash("sha256").update(secret).digest("hex") };
}

/** SQL that makes the token good, and does nothing where it is. Only a hash of its secret goes in. */
export function insertToken(token: string): string {
  return asText(grantToken({ ...storedAs(token), tenantId: TENANT, actor: ACTOR, scopes: SCOPES }, null));
}

function read(file: string): string | undefined {
  try {
    const text = readFileSync(file, "utf8").trim();
    return TOKEN.test(text) ? text : undefined;
  } catch {
    return undefined;
  }
}
