import { WorkerEntrypoint } from "cloudflare:workers";
import { type Context, Hono, type Next } from "hono";
import { control } from "./control.ts";
import { type EmbeddedEnv, ledgerOf } from "./env.ts";
import type { UpstreamName } from "./ledger.ts";
import { mastodon, mastodonError, mastodonLimit } from "./mastodon.ts";
import { pages, pagesError } from "./pages.ts";
import { search, searchError } from "./search.ts";
import { social, socialError } from "./social.ts";
import { text, textError } from "./text.ts";
import { x, xError, xLimit } from "./x.ts";

/** For each program, the function that builds an error body in the program's format. */
const errorBodies: Record<UpstreamName, (status: number, message: string) => object> = {
  search: searchError,
  text: textError,
  pages: pagesError,
  social: socialError,
  mastodon: mastodonError,
  x: xError,
};

/**
 * For each program with its own rate limit headers, the function that builds the headers. The argument is the number of seconds until the
 * limit ends.
 */
const limitHeaders: Partial<Record<UpstreamName, (seconds: number) => Record<string, string>>> = { mastodon: mastodonLimit, x: xLimit };

const app = new Hono<{ Bindings: EmbeddedEnv }>({ getPath: hostAndPath })
  .use("/search.embedded/*", injectFaults("search"))
  .use("/text.embedded/*", injectFaults("text"))
  .use("/pages.embedded/*", injectFaults("pages"))
  .use("/social.embedded/*", injectFaults("social"))
  .use("/mastodon.embedded/*", injectFaults("mastodon"))
  .use("/x.embedded/*", injectFaults("x"))
  .route("/search.embedded", search)
  .route("/text.embedded", text)
  .route("/pages.embedded", pages)
  .route("/social.embedded", social)
  .route("/mastodon.embedded", mastodon)
  .route("/x.embedded", x)
  .route("/control.embedded", control);

/**
 * The upstreams of a local engine: programs with the providers' wire formats and real state. Bind the class as the service `UPSTREAMS`. The
 * host of a request selects the program. The embedded upstreams are not reachable from the internet.
 */
export class EmbeddedUpstreams extends WorkerEntrypoint<EmbeddedEnv> {
  override fetch(request: Request): Response | Promise<Response> {
    return app.fetch(request, this.env);
  }
}

function hostAndPath(request: Request): string {
  const { hostname, pathname } = new URL(request.url);
  return `/${hostname}${pathname}`;
}

function injectFaults(upstream: UpstreamName) {
  return async (context: Context<{ Bindings: EmbeddedEnv }>, next: Next): Promise<void> => {
    const { pathname, searchParams } = new URL(context.req.url);
    const call = { upstream, key: context.req.header("idempotency-key") ?? null, subject: `${context.req.method} ${pathname}` };
    const parts = [decodeURIComponent(pathname), ...searchParams.values(), await context.req.text()];

    const fault = await ledgerOf(context.env).takeFault(call, parts.join("\n"));
    if (!fault) return next();
    if (fault.afterEffect) await next();

    const named = limitHeaders[upstream] ?? ((seconds: number) => ({ "retry-after": String(seconds) }));
    const headers = fault.retryAfter === undefined ? undefined : named(fault.retryAfter);
    context.res = Response.json(errorBodies[upstream](fault.status, "A fault was injected here."), { status: fault.status, headers });
  };
}
