import { MillraceError, notRetryable } from "millrace";
import * as z from "zod";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

/** An article's page as it is published. */
export interface Page {
  /** The page's path in a store: segments joined by `/`, without a slash at the start or the end, such as `acme/cold-brew`. */
  path: string;
  /** The page's unique name, for a store that assigns URLs itself. */
  slug: string;
  /** The page's title as plain text. */
  title: string;
  /** The article as an HTML fragment without its title, for stores that add their own page frame. */
  content: string;
  /** The whole HTML document, for stores without their own page frame. */
  document: string;
}

export interface PublishedPage {
  /** The page's public URL. */
  url: string;
  /** The ETag of this exact version of the page. */
  etag: string;
}

/** The kind of software that runs a page store. */
export type PagesKind = "store" | "http" | "wordpress";

/** A store that publishes pages. */
export interface Pages {
  readonly kind: PagesKind;
  /** The store's kind and address. A page can be removed only from the store in which the page was published. */
  readonly store: string;
  /**
   * True if `put` is repeatable (`natural`). If `put` is not repeatable, a repetition would create a second page, so callers first call
   * `find` (`lookup`).
   */
  readonly repeatable: boolean;
  /** Creates or replaces a page in the store. */
  put(page: Page, options: CallOptions): Promise<PublishedPage>;
  /** Finds the published page; undefined if the page certainly does not exist. */
  find(page: Pick<Page, "path" | "slug">, options: CallOptions): Promise<PublishedPage | undefined>;
  /** Removes a page from the store. A page that does not exist counts as removed. */
  remove(page: Pick<Page, "path" | "slug">, options: CallOptions): Promise<void>;
}

const Published = z.object({ url: z.url(), etag: z.string().min(1) });

/**
 * A page store over HTTP: `PUT /pages/{path}` of `text/html` returns `{ url, etag }`; `GET` returns the page's data; `DELETE` removes the
 * page.
 */
export function httpPages(upstream: Upstream, store: string, kind: "store" | "http" = "http"): Pages {
  const ask = <T>(method: "GET" | "PUT" | "DELETE", path: string, answer: z.ZodType<T>, options: CallOptions, html?: string) =>
    callUpstream(
      upstream,
      {
        method,
        path: `/pages/${encodedPath(path)}`,
        headers: {
          authorization: `Bearer ${upstream.credential.value}`,
          "idempotency-key": options.key,
          ...(html !== undefined && { "content-type": "text/html; charset=utf-8" }),
        },
        body: html,
      },
      answer,
      options,
    );
  return {
    kind,
    store,
    repeatable: true,
    put: async (page, options) => ask("PUT", page.path, Published, options, page.document),
    find: async ({ path }, options) => ask("GET", path, Published, options).catch(unlessAbsent),
    remove: async ({ path }, options) => {
      await ask("DELETE", path, z.unknown(), options).catch(unlessAbsent);
    },
  };
}

/** A missing page is a valid result of a search and of a removal. */
function unlessAbsent(error: unknown): undefined {
  const status = error instanceof MillraceError ? error.detail.upstreamStatus : undefined;
  if (status !== 404 && status !== 410) throw error;
}

function encodedPath(path: string): string {
  const segments = path.split("/");
  // The URL parser would resolve `..`, so the call would write another page.
  if (segments.some((segment) => segment === "" || segment === "." || segment === "..")) {
    throw notRetryable(`The page path "${path}" has an empty, "." or ".." segment. Use names joined by "/".`);
  }
  return segments.map(encodeURIComponent).join("/");
}
