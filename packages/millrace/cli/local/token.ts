import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { keptOf, newToken } from "../../src/contract/token.ts";
import { grantToken, moveToken } from "../../src/store/tokens.ts";
import { Refusal } from "../command.ts";
import { SCOPES } from "../token/request.ts";
import { asText } from "../token/sql-text.ts";
import { shown } from "./wrangler.ts";

const TENANT = "acme";
const ACTOR = "local";

/** The token of a local engine, created once in a file that only its owner can read. */
export function localToken(file: string): string {
  const kept = read(file);
  if (kept !== undefined) return kept;
  const { text: token } = newToken();
  rmSync(file, { force: true });
  writeFileSync(file, `${token}\n`, { flag: "wx", mode: 0o600 });
  return token;
}

/** The curl option that sends the token. curl reads the token from its file, so that a copied command does not contain the token. */
export function authOption(file: string): string {
  const path = shown(file).startsWith("..") ? file : shown(file);
  const quoted = /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
  return `-H "Authorization: Bearer $(cat ${quoted})"`;
}

/** SQL that stores the hash of the token, and changes the token's tenant if `tenant` is set. */
export function insertToken(token: string, tenant?: string): string {
  const kept = keptOf(token);
  if (!kept) throw new Refusal("The token of this checkout is not valid. Delete its file; the next start creates a new one.");
  const granted = grantToken({ ...kept, tenantId: tenant ?? TENANT, actor: ACTOR, scopes: SCOPES }, null);
  return asText(granted, ...(tenant === undefined ? [] : [moveToken(kept.id, tenant)]));
}

function read(file: string): string | undefined {
  try {
    const text = readFileSync(file, "utf8").trim();
    return keptOf(text) && text;
  } catch {
    return undefined;
  }
}
