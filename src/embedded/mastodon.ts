import { type Context, Hono, type Next } from "hono";
import * as z from "zod";
import { EMBEDDED_TOKEN } from "../providers/credentials.ts";
import { MASTODON_CHARACTERS, mastodonLength } from "../providers/post-length.ts";
import { type EmbeddedEnv, ledgerOf } from "./env.ts";
import type { StoredPost } from "./ledger.ts";

/** How long Mastodon remembers an idempotency key. */
const KEY_MS = 3_600_000;
const ORIGIN = "https://mastodon.embedded";
const LARGEST_PAGE = 40;

type MastodonEnv = { Bindings: EmbeddedEnv; Variables: { account: string } };

const NewStatus = z.object({
  status: z.string().default(""),
  visibility: z.enum(["public", "unlisted", "private", "direct"]).default("public"),
});

/** A server with Mastodon's API. Each token that begins with the embedded token has its own account. */
export const mastodon = new Hono<MastodonEnv>()
  .use("/api/*", async (context: Context<MastodonEnv>, next: Next) => {
    const token = context.req.header("authorization")?.replace(/^Bearer /, "") ?? "";
    if (!token.startsWith(`${EMBEDDED_TOKEN}.`)) return context.json(mastodonError(401, "The access token is invalid"), 401);
    context.set("account", token.slice(EMBEDDED_TOKEN.length + 1));
    return next();
  })

  .get("/api/v1/accounts/verify_credentials", (context) => {
    const source = { note: "", fields: [], privacy: "public", sensitive: false, language: "", follow_requests_count: 0 };
    return context.json({ ...accountOf(context.get("account")), source });
  })

  .get("/api/v1/accounts/:id/statuses", async (context) => {
    const account = context.get("account");
    if (context.req.param("id") !== accountOf(account).id) return context.json(mastodonError(404, "Record not found"), 404);
    const { limit = "20", max_id = String(Number.MAX_SAFE_INTEGER) } = context.req.query();
    const most = Math.min(Number(limit), LARGEST_PAGE);
    const posts = await ledgerOf(context.env).posts("mastodon", account, Number(max_id), most);
    return context.json(posts.map((post) => statusOf(account, post)));
  })

  .post("/api/v1/statuses", async (context) => {
    const body = NewStatus.safeParse(await context.req.json().catch(() => undefined));
    const status = body.data?.status ?? "";
    if (status.trim() === "") return context.json(mastodonError(422, "Validation failed: Text can't be blank"), 422);
    if (mastodonLength(status) > MASTODON_CHARACTERS) {
      return context.json(mastodonError(422, `Validation failed: Text character limit of ${MASTODON_CHARACTERS} exceeded`), 422);
    }
    const account = context.get("account");
    const call = { upstream: "mastodon" as const, key: context.req.header("idempotency-key") ?? null, subject: `${account} ${status}` };
    return context.json(statusOf(account, await ledgerOf(context.env).addPost(call, account, status, KEY_MS)));
  });

export function mastodonError(_status: number, error: string): object {
  return { error };
}

/** Mastodon's 429 response contains a date and no `Retry-After`. */
export function mastodonLimit(seconds: number): Record<string, string> {
  const reset = new Date(Date.now() + seconds * 1000).toISOString();
  return { "x-ratelimit-limit": "300", "x-ratelimit-remaining": "0", "x-ratelimit-reset": reset };
}

function accountOf(account: string) {
  const page = `${ORIGIN}/@${account}`;
  const counts = { followers_count: 0, following_count: 0, statuses_count: 0 };
  const flags = { locked: false, bot: true, discoverable: true, group: false };
  const pictures = { avatar: `${page}.png`, avatar_static: `${page}.png`, header: `${page}.png`, header_static: `${page}.png` };
  return {
    ...{ id: idOf(account), username: account, acct: account, display_name: account, note: "", url: page },
    ...{ created_at: "2026-01-01T00:00:00.000Z", last_status_at: null, emojis: [], fields: [] },
    ...counts,
    ...flags,
    ...pictures,
  };
}

/** Returns the numeric id of an account. */
function idOf(account: string): string {
  return Array.from(account)
    .reduce((sum, one) => (sum * 31n + BigInt(one.codePointAt(0) ?? 0)) % 10n ** 15n, 1n)
    .toString();
}

function statusOf(account: string, { id, text, at }: StoredPost) {
  return {
    ...{ id: String(id), created_at: new Date(at).toISOString(), in_reply_to_id: null, in_reply_to_account_id: null, sensitive: false },
    ...{ spoiler_text: "", visibility: "public", language: "en", replies_count: 0, reblogs_count: 0, favourites_count: 0 },
    ...{ uri: `${ORIGIN}/users/${account}/statuses/${id}`, url: `${ORIGIN}/@${account}/${id}`, content: contentOf(text) },
    ...{ reblog: null, account: accountOf(account), media_attachments: [], mentions: [], tags: [], emojis: [], card: null, poll: null },
  };
}

/** Returns the HTML in which Mastodon shows a text: escaped, and with clickable links. */
function contentOf(text: string): string {
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
  return `<p>${escaped.replaceAll(/https?:\/\/\S+/g, (url) => `<a href="${url}" target="_blank" rel="nofollow noopener">${url}</a>`)}</p>`;
}
