import { parseArgs } from "node:util";
import { isScope } from "../../src/contract/token.ts";
import { Misuse } from "../command.ts";
import { whatIsWrong } from "../options.ts";

/** The scopes of the engine. A test compares both lists. */
export const SCOPES = ["enqueue", "read", "operate", "embedded", "unattributed", "tokens", "pull", "observe", "reveal"];
const USUAL_SCOPES = "enqueue,read,operate";
const USUAL_DAYS = 90;
const MAX_DAYS = 3660;
const ID = /^(?:[0-9a-f]{16}|x\d{3}[0-9a-f]{12})$/;
export const TENANT = /^[a-z0-9][a-z0-9_-]{0,63}$/;

export const USAGE = `Usage: npx millrace token --tenant acme --actor ada [--scopes ${USUAL_SCOPES}] [--own-scopes …] \
[--days ${USUAL_DAYS}] [--reason …] [WHERE]
       npx millrace token list --tenant acme [WHERE]
       npx millrace token link
       npx millrace token revoke <id> [--descendants] [--reason …] [WHERE]
The first form creates a token. It expires after --days, at most ${MAX_DAYS}.
--scopes: some of ${SCOPES.join(", ")}. --own-scopes: scopes of the app.
--descendants also revokes the tokens that were minted with it, and their descendants.
\`link\` prints a link that signs a browser in to the console of the local engine.
WHERE selects the database: --remote (the deployed engine), --config FILE (another wrangler.jsonc),
or --persist-to FOLDER (the state of \`wrangler dev\`).`;

export interface Mint {
  verb: "mint";
  tenant: string;
  actor: string;
  scopes: string[];
  days: number;
  reason: string;
}
/** Selects the database. `config` is the `wrangler.jsonc` of another Worker, `persistTo` the state folder of its `wrangler dev`. */
export interface Whose {
  remote: boolean;
  config: string | undefined;
  persistTo: string | undefined;
}
export interface Revoke {
  verb: "revoke";
  id: string;
  reason: string;
  /** If true, all tokens that were minted with this token are also revoked. */
  descendants: boolean;
}

export type TokenRequest = Whose & (Mint | { verb: "list"; tenant: string } | { verb: "link" } | Revoke);

/** Parses the arguments. Errors: a `Misuse` with the mistake. */
export function readRequest(args: readonly string[]): TokenRequest {
  const { values, positionals } = parsed(args);
  const [verb = "mint", ...rest] = positionals;
  const { remote = false, config, "persist-to": persistTo, reason = "", descendants = false } = values;
  const whose = { remote, config, persistTo };
  if (verb === "revoke") {
    const [id = ""] = rest;
    // The argument may be the whole token instead of the token's id.
    const short = /^mr_([0-9a-fx]{16})_/.exec(id)?.[1] ?? id;
    if (!ID.test(short)) throw wrong(`"${short.slice(0, 40)}" is not the id of a token: it must be the 16 digits after mr_`);
    return { verb, id: short, reason, descendants, ...whose };
  }
  if (verb === "link" && args.length === 1) return { verb, ...whose };
  const own = wordsOf(values["own-scopes"] ?? "");
  const { tenant = "", actor = "", scopes = own.length > 0 ? "" : USUAL_SCOPES, days = String(USUAL_DAYS) } = values;
  if (!["mint", "list"].includes(verb) || rest.length > 0) throw wrong(`"${[verb, ...rest].join(" ")}" is nothing that it does`);
  if (!TENANT.test(tenant)) throw wrong(`--tenant is ${tenant ? `"${tenant}"` : "missing"}: up to 64 lower case letters, digits, - or _`);
  if (verb === "list") return { verb, tenant, ...whose };
  if (!/^\P{Cc}{1,100}$/u.test(actor) || !/[^\p{Cf}\p{Z}]/u.test(actor))
    throw wrong("--actor must be the name of the holder, 1 to 100 characters; the audit shows it");
  const named = wordsOf(scopes);
  const unknown = named.find((scope) => !SCOPES.includes(scope));
  if (unknown !== undefined || named.length + own.length === 0)
    throw wrong(`--scopes: "${unknown ?? ""}" is not one of ${SCOPES.join(", ")}; give a scope of the app with --own-scopes`);
  const odd = own.find((scope) => !isScope(scope));
  if (odd !== undefined) throw wrong(`--own-scopes: "${odd}" must contain only lower case letters, digits and _ : . -`);
  if (!/^\d{1,4}$/.test(days) || Number(days) < 1 || Number(days) > MAX_DAYS) throw wrong(`--days is 1 to ${MAX_DAYS}, not "${days}"`);
  return {
    verb: "mint",
    tenant,
    actor,
    scopes: [...new Set([...SCOPES.filter((scope) => named.includes(scope)), ...own])],
    days: Number(days),
    reason,
    ...whose,
  };
}

function wordsOf(list: string): string[] {
  return list.split(/[\s,]+/).filter(Boolean);
}

function parsed(args: readonly string[]) {
  const text = { type: "string" } as const;
  const options = {
    tenant: text,
    actor: text,
    scopes: text,
    "own-scopes": text,
    days: text,
    reason: text,
    config: text,
    "persist-to": text,
    remote: { type: "boolean" },
    descendants: { type: "boolean" },
  } as const;
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    throw wrong(whatIsWrong(error).replace(/\.$/, ""));
  }
}

function wrong(what: string): Misuse {
  return new Misuse(`${what}.\n${USAGE}`);
}
