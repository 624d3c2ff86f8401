import ipaddr from "ipaddr.js";
import { texts } from "millrace";

const MAX_CHARACTERS = 2048;
/** Lowest allowed port besides 443. Ports below it are refused, because mail servers, remote shells and other services use them. */
const LOWEST_PORT = 1024;

/** Suffixes of host names that are used in private networks or never resolve to a public host. */
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

/**
 * A URL whose text is acceptable, or the reason for the refusal of the URL. `name` is the host name to resolve by DNS, and is absent for an
 * IP address.
 */
export type CheckedUrl = { url: URL; name?: string } | { refused: string };

/**
 * Checks a URL by its text only. WHATWG's parser has already normalised decimal, hexadecimal, octal and short addresses. With `local`, URLs
 * on this machine are allowed too, even with plain http.
 */
export function checkText(text: string, { local = false } = {}): CheckedUrl {
  if (texts.characterCount(text) > MAX_CHARACTERS) return { refused: `is longer than ${MAX_CHARACTERS} characters` };
  if (!URL.canParse(text)) return { refused: "is not a URL: write it in full, such as https://example.com/hooks" };
  const url = new URL(text);
  url.hash = "";
  if (url.username || url.password) return { refused: "must not contain a user or a password: the signature authenticates the sender" };
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.+$/, "");
  if (isLoopback(host) && /^https?:$/.test(url.protocol)) {
    return local
      ? { url }
      : {
          refused:
            "leads to this machine, which is not public: for development, put WEBHOOKS_ALLOW_LOCAL=true into .dev.vars and restart the engine",
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

/** True for an address on the public internet: global unicast, without embedded addresses (mapped, NAT64, 6to4, Teredo). */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address) || address === AZURE_WIRE_SERVER) return false;
  const parsed = ipaddr.parse(address);
  if (parsed.range() !== "unicast") return false;
  return parsed.kind() === "ipv4" || parsed.match(GLOBAL_UNICAST);
}

/** This address is in a public range, but at this address each Azure machine can read its own secrets. */
const AZURE_WIRE_SERVER = "168.63.129.16";

/** The range of public IPv6 addresses; IPv4-compatible, translated and local addresses are outside this range. */
const GLOBAL_UNICAST = ipaddr.parseCIDR("2000::/3");

function whyPrivate(name: string): string | undefined {
  if (name.split(".").includes("")) return "has an empty part in its host name";
  if (!name.includes(".")) return "must name a host with its domain";
  const suffix = PRIVATE_SUFFIXES.find((one) => name === one || name.endsWith(`.${one}`));
  if (suffix) return `must not be in a private network, as names under ${suffix} are`;
  // No public host name ends in a number. A host that ends in a number is an IP address in a form that only some resolvers accept.
  if (/(^|\.)(\d+|0x[0-9a-f]*)$/.test(name)) return "is an address in an unsupported form";
  return undefined;
}
