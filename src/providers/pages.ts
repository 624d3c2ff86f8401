import { MillraceError, notRetryable } from "millrace";
import * as z from "zod";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

/** An article as it is published. */
export interface Page {
  /** Where a store keeps it: segments joined by `/`, without one at either end, such as `acme/cold-brew`. */
  path: string;
  /** Its name in a system that makes the address itself. Unique. */
  slug: string;
  /** Plain text. */
  title: string;
  /** The article itself as an HTML fragment, without its title: for systems that have a frame of their own. */
  content: string;
  /** The whole document, for those that have none. */
  document: string;
}

export interface PublishedPage {
  /** Where people read it. */
  url: string;
  /** Names this exact version. */
  etag: string;
}

/** Publishing. */
export interface Pages {
  /** Which store this is: its kind and its address. A page can be taken down only where it was put up. */
  readonly store: string;
  /**
   * True when `put` may simply be repeated (`natural`). Otherwise a repeat would make a second page, and `find` is asked first (`lookup`).
   */
  readonly repeatable: boolean;
  /** Creates or replaces a page. */
  put(page: Page, options: CallOptions): Promise<PublishedPage>;
  /** The page as it is up; undefined for a sure no. */
  find(page: Pick<Page, "path" | "slug">, options: CallOptions): Promise<PublishedPage | undefined>;
  /** Takes a page down. One that is not there stays so. */
  remove(page: Pick<Page, "path" | "slug">, options: CallOptions): Promise<void>;
}

const Published = z.object({ url: z.url(), etag: z.string().min(1) });

/**
 * A page store over HTTP: `PUT /pages/{path}` of `text/html`, answered by `{ url, etag }`; `GET` of the same says it again; `DELETE` takes
 * it down.
 */
export function httpPages(upstream: Upstream, store: string): Pages {
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
    store,
    repeatable: true,
    put: async (page, options) => ask("PUT", page.path, Published, options, page.document),
    find: async ({ path }, options) => ask("GET", path, Published, options).catch(unlessAbsent),
    remove: async ({ path }, options) => {
      await ask("DELETE", path, z.unknown(), options).catch(unlessAbsent);
    },
  };
}

/** A page that is not there: an answer, and for its removal a good one. */
function unlessAbsent(error: unknown): undefined {
  const status = error instanceof MillraceError ? error.detail.upstreamStatus : undefined;
  if (status !== 404 && status !== 410) throw error;
}

function encodedPath(path: string): string {
  const segments = path.split("/");
  // `..` would be resolved away by the URL parser and write some other page.
  if (segments.some((segment) => segment === "" || segment === "." || segment === "..")) {
    throw notRetryable(`The page path "${path}" has an empty, "." or ".." segment. Use names joined by "/".`);
  }
  return segments.map(encodeURIComponent).join("/");
}
