import { Hono } from "hono";
import * as z from "zod";
import { EMBEDDED_TOKEN } from "../providers/credentials.ts";
import { oauth1Parameters, oauth1Signature } from "../providers/oauth1.ts";
import { X_CHARACTERS, xLength } from "../providers/post-length.ts";
import { type EmbeddedEnv, ledgerOf } from "./env.ts";

/** Maximum age of a signed request. */
const FRESH_SECONDS = 300;

const NewPost = z.object({ text: z.string().min(1) });

/**
 * X's endpoint for posts. Each access token that begins with the embedded token has its own account. X's endpoint has no idempotency keys.
 */
export const x = new Hono<{ Bindings: EmbeddedEnv }>().post("/2/tweets", async (context) => {
  const { url, method } = context.req.raw;
  const account = await signer(context.req.header("authorization"), method, url);
  if (account === undefined) return context.json(xError(401, "Unauthorized"), 401);

  const body = NewPost.safeParse(await context.req.json().catch(() => undefined));
  if (!body.success) return context.json(xError(400, "One or more parameters to your request was invalid."), 400);
  const { text } = body.data;
  if (xLength(text) > X_CHARACTERS) return context.json(xError(400, "Your Tweet text is too long."), 400);
  const ledger = ledgerOf(context.env);
  const call = { upstream: "x" as const, key: null, subject: `${account} ${text}` };
  if (await ledger.hasPost("x", account, text)) {
    await ledger.record(call, "refused");
    return context.json(xError(403, "You are not allowed to create a Tweet with duplicate content."), 403);
  }
  const { id } = await ledger.addPost(call, account, text, 0);
  return context.json({ data: { id: String(id), text, edit_history_post_ids: [String(id)] } }, 201);
});

const TITLES: Record<number, string> = { 400: "Invalid Request", 401: "Unauthorized", 403: "Forbidden", 429: "Too Many Requests" };

/**
 * Builds a refusal as problem details, of the type `about:blank` or of a type that X defines. X documents no status for a text that is too
 * long.
 */
export function xError(status: number, detail: string): object {
  const type = status === 400 ? "https://api.x.com/2/problems/invalid-request" : "about:blank";
  return { title: TITLES[status] ?? "Service Unavailable", detail, type, status };
}

/** X's 429 response contains the end of the limit in seconds since 1970, and no `Retry-After`. */
export function xLimit(seconds: number): Record<string, string> {
  const reset = String(Math.ceil(Date.now() / 1000) + seconds);
  return { "x-rate-limit-limit": "100", "x-rate-limit-remaining": "0", "x-rate-limit-reset": reset };
}

/** Returns the account that signed a request; undefined for an invalid signature, and for a request that is too old. */
async function signer(header: string | undefined, method: string, url: string): Promise<string | undefined> {
  const { oauth_signature, ...own } = oauth1Parameters(header) ?? {};
  const { oauth_token: token = "", oauth_consumer_key, oauth_timestamp } = own;
  if (oauth_consumer_key !== EMBEDDED_TOKEN || !token.startsWith(`${EMBEDDED_TOKEN}.`)) return undefined;
  if (Math.abs(Date.now() / 1000 - Number(oauth_timestamp)) > FRESH_SECONDS) return undefined;
  const secrets = { consumerSecret: EMBEDDED_TOKEN, tokenSecret: EMBEDDED_TOKEN };
  const expected = await oauth1Signature(secrets, { method, url }, own);
  return expected === oauth_signature ? token.slice(EMBEDDED_TOKEN.length + 1) : undefined;
}
