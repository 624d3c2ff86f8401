import ipaddr from "ipaddr.js";
import { characterCount } from "millrace";

const MAX_CHARACTERS = 2048;
/** Below it live mail, shells and databases; 443 is the one exception. */
const LOWEST_PORT = 1024;

/** Top levels, and names below them, that lead into somebody's own network or nowhere. */
const PRIVATE_SUFFIXES = [
  "localhost",
  "local",
  "localdomain",
  "internal",
  "intranet",
  "private",
  "corp",
  "home",
  "lan",
  "home.arpa",
  "in-addr.arpa",
  "ip6.arpa",
  "svc",
  "test",
  "invalid",
  "onion",
  "metadata.goog",
];

/** A URL that may be called as far as its text says, or why it may not. `name` is what DNS must be asked about; absent for an address. */
export type CheckedUrl = { url: URL; name?: string } | { refused: string };

/**
 * Judges a URL by its text alone. WHATWG's parser has made decimal, hexadecimal, octal and short addresses plain before they are looked at.
 * With `local`, this machine itself may be called, by plain http too; nothing else changes.
 */
export function checkText(text: string, { local = false } = {}): CheckedUrl {
  if (characterCount(text) > MAX_CHARACTERS) return { refused: `is longer than ${MAX_CHARACTERS} characters` };
  if (!URL.canParse(text)) return { refused: "is not a URL: write it in full, such as https://example.com/hooks" };
  const url = new URL(text);
  url.hash = "";
  if (url.username || url.password) return { refused: "must not carry a user or a password: the signature proves who sends" };
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.+$/, "");
  if (isLoopback(host) && /^https?:$/.test(url.protocol)) {
    return local
      ? { url }
      : {
          refused:
            "leads to this machine, which is not public: for development, put WEBHOOKS_ALLOW_LOCAL=true into .dev.vars and start the engine anew",
        };
  }
  if (url.protocol !== "https:") return { refused: "must begin with https://" };
  if (url.port && Number(url.port) < LOWEST_PORT) return { refused: `must use port 443, or one from ${LOWEST_PORT} up` };
  if (ipaddr.isValid(host)) return isPublic(host) ? { url } : { refused: "is an address that is not public" };
  const refused = whyPrivate(host);
  return refused ? { refused } : { url, name: host };
}

function isLoopback(host: string): boolean {
  return host === "localhost" || (ipaddr.isValid(host) && ipaddr.parse(host).range() === "loopback");
}

/**
 * True for an address on the public internet: global unicast, and no address that carries another one inside it (mapped, NAT64, 6to4,
 * Teredo).
 */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address) || address === AZURE_WIRE_SERVER) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== "unicast") return false;
  return parsed.kind() === "ipv4" || parsed.match(GLOBAL_UNICAST);
}

/** Looks public, and answers machines on Azure with their own secrets. */
const AZURE_WIRE_SERVER = "168.63.129.16";

/** All that is assigned for public use in IPv6; outside it there are compatible, translated and local forms. */
const GLOBAL_UNICAST = ipaddr.parseCIDR("2000::/3");

function whyPrivate(name: string): string | undefined {
  if (name.split(".").includes("")) return "has an empty part in its host name";
  if (!name.includes(".")) return "must name a host with its domain";
  const suffix = PRIVATE_SUFFIXES.find((one) => name === one || name.endsWith(`.${one}`));
  if (suffix) return `must not lead into a private network, as names under ${suffix} do`;
  // Nothing public ends in a number; what does is an address in a form that some resolver might read.
  if (/(^|\.)(\d+|0x[0-9a-f]*)$/.test(name)) return "is an address in a form that is not understood";
  return undefined;
}
