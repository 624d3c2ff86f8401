import type { Context } from "hono";
import ipaddr from "ipaddr.js";
import { knownRoot } from "../access/find-token.ts";
import { objectsIn } from "../contract/bindings.ts";
import { Leases } from "../limits/leases.ts";
import type { Window } from "../limits/windows.ts";
import type { Asked, HttpEnv } from "./env.ts";
import { HttpRefusal } from "./problem.ts";

/** Period of the limits per token and per address. `wrangler.jsonc` has the same value for the limit that the platform counts. */
const PERIOD_MS = 10_000;
const PER_TOKEN = 2_000;
const PER_ADDRESS = 200;

/** This isolate's share of the request limits that the engine counts. */
const leases = new Leases();
/** When the refusal of an address ends, oldest first. */
const refusedUntil = new Map<string, number>();
const MOST_REFUSED = 10_000;

/**
 * Limits requests per address before any access to D1 or R2. Routes below `knowing` authenticate their callers and have no limit. Each
 * first path segment has its own count, so that readers of pages do not use up the limit of /healthz. Errors: `rate_limited`.
 */
export function limitStrangers(knowing: readonly string[]): (asked: Asked) => Promise<void> {
  return async (asked) => {
    const first = asked.req.path.split("/")[1] ?? "";
    if (!knowing.includes(first)) await countStranger(asked, first);
  };
}

/** Counts a costly operation for its address, by the platform's binding if it exists. Errors: `rate_limited`. */
export async function countStranger({ env, req }: Asked, what: string): Promise<void> {
  const address = req.header("cf-connecting-ip");
  if (address === undefined) return;
  const key = `${what}/${networkOf(address)}`;
  const window = windowOf(env.REQUESTS_PER_ADDRESS, PER_ADDRESS);
  const waitMs = env.STRANGER_REQUESTS
    ? await countedByPlatform(env.STRANGER_REQUESTS, key)
    : await countedHere(env, `requests/${key}`, window);
  if (waitMs === 0) return;
  const [oldest = ""] = refusedUntil.size >= MOST_REFUSED ? refusedUntil.keys() : [];
  refusedUntil.delete(oldest);
  refusedUntil.set(key, Date.now() + waitMs);
  throw addressRefusal(env, waitMs);
}

/** Refuses an address that is over its limit. Does not count: it is for routes that count only refusals. Errors: `rate_limited`. */
export function refuseCountedStranger({ env, req }: Asked, what: string): void {
  const address = req.header("cf-connecting-ip");
  if (address === undefined) return;
  const waitMs = (refusedUntil.get(`${what}/${networkOf(address)}`) ?? 0) - Date.now();
  if (waitMs > 0) throw addressRefusal(env, waitMs);
}

function addressRefusal(env: HttpEnv["Bindings"], waitMs: number): HttpRefusal {
  const why = "This address exceeds the request limit for callers without a known token.";
  return refusal("address", why, waitMs, env.STRANGER_REQUESTS ? undefined : windowOf(env.REQUESTS_PER_ADDRESS, PER_ADDRESS));
}

/** Refuses a token that this isolate knows to be over its limit, before its lookup. Errors: `rate_limited`. */
export function refuseCounted({ env, req }: Asked): void {
  const [, id] = /^Bearer +mr_([0-9a-fx]{16})_/i.exec(req.header("authorization") ?? "") ?? [];
  const waitMs = id === undefined ? 0 : leases.refusedFor(`requests/token ${knownRoot(id)}`);
  if (waitMs > 0) throw tokenRefusal(waitMs, windowOf(env.REQUESTS_PER_TOKEN, PER_TOKEN));
}

/**
 * Counts a request for the first token of its token's chain, so that all descendants share the limit. Returns headers with the remainder,
 * if this isolate knows it. Errors: `rate_limited`.
 */
export async function countToken({ env, var: { caller } }: Context<HttpEnv>): Promise<Record<string, string>> {
  const window = windowOf(env.REQUESTS_PER_TOKEN, PER_TOKEN);
  const name = `requests/token ${caller.rootId}`;
  const waitMs = await countedHere(env, name, window);
  if (waitMs > 0) throw tokenRefusal(waitMs, window);
  const left = leases.leftOf(name);
  return window && left !== undefined ? limitHeaders("token", left, PERIOD_MS / 1000, window) : {};
}

function tokenRefusal(waitMs: number, window: Window | undefined): HttpRefusal {
  return refusal("token", "This token exceeds its request limit.", waitMs, window);
}

/** A configured request limit, or the default; undefined for "0". An invalid setting counts as unset. */
function windowOf(setting: string | number | undefined, usual: number): Window | undefined {
  const limit = setting === undefined || setting === "" ? usual : Number(setting);
  if (limit === 0) return undefined;
  return { limit: Number.isInteger(limit) && limit > 0 ? limit : usual, periodMs: PERIOD_MS };
}

async function countedHere(env: HttpEnv["Bindings"], name: string, window: Window | undefined): Promise<number> {
  return window && objectsIn(env, "RATE_LIMIT") ? leases.spend(env, name, window) : 0;
}

/** The platform's limit returns only yes or no, so a refusal lasts one period. If the call fails, the request is allowed. */
async function countedByPlatform(limit: RateLimit, key: string): Promise<number> {
  const { success } = await limit.limit({ key }).catch(() => ({ success: true }));
  return success ? 0 : PERIOD_MS;
}

/** Headers of draft-ietf-httpapi-ratelimit-headers: `left` requests for the next `seconds`. */
function limitHeaders(policy: "address" | "token", left: number, seconds: number, window: Window | undefined): Record<string, string> {
  return {
    ratelimit: `"${policy}";r=${left};t=${seconds}`,
    ...(window && { "ratelimit-policy": `"${policy}";q=${window.limit};w=${window.periodMs / 1000}` }),
  };
}

function refusal(policy: "address" | "token", why: string, waitMs: number, window: Window | undefined): HttpRefusal {
  const seconds = Math.ceil(waitMs / 1000);
  return new HttpRefusal("rate_limited", `${why} Send this one again in ${seconds} s. It had no effect.`, {
    "retry-after": String(seconds),
    ...limitHeaders(policy, 0, seconds, window),
  });
}

/** The network of an address: the IPv4 address, or the first 64 bits of an IPv6 address, the smallest usual allocation. */
function networkOf(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address;
  const parsed = ipaddr.IPv6.parse(address);
  return parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : parsed.parts.slice(0, 4).join(":");
}
