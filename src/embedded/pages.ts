import { type Context, Hono } from "hono";
import { publicUrl } from "../providers/public-url.ts";
import { type EmbeddedEnv, hasBearer, ledgerOf } from "./env.ts";
import type { Outcome } from "./ledger.ts";

/** R2's maximum length of an object's name, in bytes. */
const MAX_PATH_BYTES = 1024;
const CONTENT_TYPE = "text/html; charset=utf-8";

/**
 * A published page shares its origin with the API and the console, and a model writes the page's text. The policy's sandbox directive gives
 * the page a separate origin. The other directives allow only text, pictures and the page's own style.
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

/** The headers of all public content of a brand: pages, index and feed. */
export const PAGE_HEADERS = {
  "content-security-policy": CONTENT_SECURITY_POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "strict-origin-when-cross-origin",
  // A page may be replaced at any time, so caches must revalidate.
  "cache-control": "public, max-age=0, must-revalidate",
};

const PATH = "/pages/:path{.+}";

/**
 * A page store on R2. The store's `PUT` returns 201 for a new page and 200 for a replaced page. `GET` returns 404 if the page does not
 * exist. `DELETE` always returns 204.
 */
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

/**
 * Records the change in the ledger of calls, which decides whether the page was new. The store cannot decide this, because it may contain
 * the page of an attempt that died after its write.
 */
function record({ env, req }: Context<{ Bindings: EmbeddedEnv }>, path: string, did: "put" | "removed"): Promise<Outcome> {
  return ledgerOf(env).recordPage({ upstream: "pages", key: req.header("idempotency-key") ?? null, subject: path }, did);
}

export function pagesError(status: number, detail: string): object {
  return { status, detail };
}

/**
 * Serves a published page; returns null if the page does not exist. The response is 304 if the request's headers show that the browser has
 * this version.
 */
export async function servePage(
  env: Pick<EmbeddedEnv, "PAGES">,
  path: string,
  requestHeaders: Headers = new Headers(),
): Promise<Response | null> {
  // A visitor can request any path and send any header, and R2 throws for an invalid object name or ETag.
  if (new TextEncoder().encode(path).byteLength > MAX_PATH_BYTES) return null;
  // Reads only the ETags of the header, without the `W/` that compressing proxies add. RFC 9110 compares ETags weakly here, and R2 does not
  // support weak ETags.
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
