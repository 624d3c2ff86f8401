import * as z from "zod";
import { notRetryable } from "../engine/index.ts";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

interface Page {
  /** Where it lives: segments joined by `/`, without one at either end, such as `acme/cold-brew`. */
  path: string;
  /** The whole document. */
  html: string;
}

interface PublishedPage {
  /** Where people read it. */
  url: string;
  /** Names this exact version. */
  etag: string;
}

/** Publishing. */
export interface Pages {
  /** Creates or replaces the page at its path. Repeating it changes nothing: its effect class is `natural`. */
  put(page: Page, options: CallOptions): Promise<PublishedPage>;
}

const Published = z.object({ url: z.url(), etag: z.string().min(1) });

/** A page store over HTTP: `PUT /pages/{path}` of `text/html`, answered by `{ url, etag }`. */
export function httpPages(upstream: Upstream): Pages {
  return {
    async put(page, options) {
      return callUpstream(
        upstream,
        {
          method: "PUT",
          path: `/pages/${encodedPath(page.path)}`,
          headers: {
            authorization: `Bearer ${upstream.credential.value}`,
            "content-type": "text/html; charset=utf-8",
            "idempotency-key": options.key,
          },
          body: page.html,
        },
        Published,
        options,
      );
    },
  };
}

function encodedPath(path: string): string {
  const segments = path.split("/");
  // `..` would be resolved away by the URL parser and write some other page.
  if (segments.some((segment) => segment === "" || segment === "." || segment === "..")) {
    throw notRetryable(`The page path "${path}" has an empty, "." or ".." segment. Use names joined by "/".`);
  }
  return segments.map(encodeURIComponent).join("/");
}
