import { type Context, Hono } from "hono";
import { publicUrl } from "../providers/public-url.ts";
import { type EmbeddedEnv, hasBearer, ledgerOf } from "./env.ts";
import type { Outcome } from "./ledger.ts";

/** R2's own limit. */
const MAX_PATH_BYTES = 1024;
const CONTENT_TYPE = "text/html; charset=utf-8";

/**
 * A page shares its origin with the API and the console, and its text came from a model. The sandbox takes that origin
 * away from it; the rest leaves it text, pictures and its own style.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  "img-src 'self' https: data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "sandbox allow-popups allow-popups-to-escape-sandbox",
].join("; ");

/** What everything that people are shown of a brand is served with: pages, their index, their feed. */
export const PAGE_HEADERS = {
  "content-security-policy": CONTENT_SECURITY_POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "strict-origin-when-cross-origin",
  // It may be replaced at any time: keep it, but ask.
  "cache-control": "public, max-age=0, must-revalidate",
};

const PATH = "/pages/:path{.+}";

/** A page store on R2. `PUT` answers 201 for a new page and 200 for one it replaced, `GET` 404 for none, `DELETE` 204 in any case. */
export const pages = new Hono<{ Bindings: EmbeddedEnv }>()
  .use(PATH, async (context, next) => {
    if (!hasBearer(context.req, context.env.PAGES_TOKEN)) return context.json(pagesError(401, "The token is not valid."), 401);
    return next();
  })
  .put(PATH, async (context) => {
    if (!context.req.header("content-type")?.startsWith("text/html")) return context.json(pagesError(415, "Send text/html."), 415);
    const path = context.req.param("path");
    const html = await context.req.text();
    const stored = await context.env.PAGES.put(path, html, { httpMetadata: { contentType: CONTENT_TYPE } });
    const outcome = await record(context, path, "put");
    return context.json(published(context.env, path, stored), outcome === "created" ? 201 : 200);
  })
  .get(PATH, async (context) => {
    const path = context.req.param("path");
    const found = await context.env.PAGES.head(path);
    return found ? context.json(published(context.env, path, found)) : context.json(pagesError(404, "There is no such page."), 404);
  })
  .delete(PATH, async (context) => {
    const path = context.req.param("path");
    await context.env.PAGES.delete(path);
    await record(context, path, "removed");
    return context.body(null, 204);
  });

function published(env: EmbeddedEnv, path: string, { httpEtag }: R2Object): { url: string; etag: string } {
  return { url: publicUrl(env, `pages/${path}`), etag: httpEtag };
}

/** Whether it was new, or there, is said by the ledger: who is killed behind the store's write comes again, and finds the page there. */
function record({ env, req }: Context<{ Bindings: EmbeddedEnv }>, path: string, did: "put" | "removed"): Promise<Outcome> {
  return ledgerOf(env).recordPage({ upstream: "pages", key: req.header("idempotency-key") ?? null, subject: path }, did);
}

export function pagesError(status: number, detail: string): object {
  return { status, detail };
}

/**
 * Serves a published page to people: null where there is none. Pass the request's headers to answer 304 to a browser
 * that still has this version.
 */
export async function servePage(
  env: Pick<EmbeddedEnv, "PAGES">,
  path: string,
  requestHeaders: Headers = new Headers(),
): Promise<Response | null> {
  // A visitor can ask for any path and send any header: R2 throws on a name or a tag it cannot hold.
  if (new TextEncoder().encode(path).byteLength > MAX_PATH_BYTES) return null;
  // Only the tags, without the `W/` that compressing proxies add: RFC 9110 compares weakly here, R2 does not know how.
  const heldVersions = requestHeaders
    .get("if-none-match")
    ?.match(/"[^"]*"|\*/g)
    ?.join(", ");
  const onlyIf = heldVersions === undefined ? undefined : new Headers({ "if-none-match": heldVersions });
  const page: R2Object | R2ObjectBody | null = await env.PAGES.get(path, { onlyIf });
  if (!page) return null;

  const headers = new Headers({ ...PAGE_HEADERS, "content-type": CONTENT_TYPE, etag: page.httpEtag });
  return "body" in page ? new Response(page.body, { headers }) : new Response(null, { status: 304, headers });
}
