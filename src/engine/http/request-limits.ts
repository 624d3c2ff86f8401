import type { Context, MiddlewareHandler } from "hono";
import ipaddr from "ipaddr.js";
import { MillraceError } from "../contract/errors.ts";
import type { Asked, HttpEnv } from "./env.ts";

/** The period of both limits in wrangler.jsonc: whoever was refused has room again after it. */
const PERIOD_MS = 10_000;

/**
 * Refuses an address that asks for public routes too often, before anything is asked of the database or the bucket. Each first part of a
 * path is counted for itself: readers of pages use up nothing of who watches /healthz. Paths below `knowing` know their callers otherwise:
 * by a token, or by a signature over the body. Errors: `rate_limited`.
 */
export function limitStrangers(knowing: readonly string[]): MiddlewareHandler<HttpEnv> {
  return async (context, next) => {
    const first = context.req.path.split("/")[1] ?? "";
    if (!knowing.includes(first)) await countStranger(context, first);
    await next();
  };
}

/** Counts something that costs us, for the address it comes from; without an address nothing. Errors: `rate_limited`. */
export async function countStranger(context: Asked, what: string): Promise<void> {
  const address = context.req.header("cf-connecting-ip");
  if (address === undefined) return;
  await count(
    context.env.STRANGER_REQUESTS,
    `${what}/${networkOf(address)}`,
    "This address sends more requests than one may without a token that is known here already.",
  );
}

/** Counts a request of a token. Errors: `rate_limited`. */
export async function countToken({ env, var: { caller } }: Context<HttpEnv>): Promise<void> {
  await count(env.TOKEN_REQUESTS, caller.id, "This token sends more requests than one may.");
}

/** A limit that is not bound, or that fails, holds nobody back: it protects what is behind it, and proves nothing. */
async function count(limit: RateLimit | undefined, key: string, refusal: string): Promise<void> {
  const { success } = (await limit?.limit({ key }).catch(() => undefined)) ?? { success: true };
  if (success) return;
  const seconds = PERIOD_MS / 1000;
  throw new MillraceError("rate_limited", `${refusal} Send this one again in ${seconds} seconds: nothing was done.`, {
    delayMs: PERIOD_MS,
  });
}

/** What one caller has: an IPv4 address, or a network of IPv6, which is the least that anybody is given. */
function networkOf(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address;
  const parsed = ipaddr.IPv6.parse(address);
  return parsed.isIPv4MappedAddress() ? parsed.toIPv4Address().toString() : parsed.parts.slice(0, 4).join(":");
}
