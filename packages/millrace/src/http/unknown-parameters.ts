import type { HonoRequest, MiddlewareHandler } from "hono";
import type { Issue } from "../contract/errors.ts";
import { unknownField } from "../contract/known-fields.ts";
import { beginning } from "../contract/text.ts";
import { invalidRequest } from "./invalid-request.ts";
import type { Route } from "./router.ts";

/**
 * Refuses a URL that contains NUL, and a URL that is not percent-encoded UTF-8. A URL in another encoding could be read as a different URL.
 * Errors: `invalid_payload`.
 */
export const refuseUnreadable: MiddlewareHandler = (context, next) => {
  const { url } = context.req;
  if (!/[%?]/.test(url)) return next();
  const { pathname, search } = new URL(url);
  const unreadable = [...unreadablePath(pathname), ...unreadableValues(search)];
  if (unreadable.length > 0) throw invalidRequest(unreadable.slice(0, 50));
  return next();
};

/**
 * Refuses unknown query parameters, because a request with a misspelt filter would return an unfiltered list. Errors: `invalid_payload`.
 */
export function refuseParameters({ request }: Route, asked: HonoRequest): void {
  if (!asked.url.includes("?")) return;
  const known = Object.keys(request?.query?.shape ?? {});
  const unknown = [...new URL(asked.url).searchParams.keys()].filter((name) => !known.includes(name));
  const isRead = asked.method === "GET" || asked.method === "HEAD";
  if (unknown.length > 0)
    throw invalidRequest(unknown.slice(0, 50).map((name) => (isRead ? withBetterRoute(name, known) : unknownField([name], known))));
}

const BY_KEY = "use `GET /v1/keys/{key}` to find an idempotency key";
const BY_ID = "use `GET /v1/search?q=` to search by id";
/** Parameters that callers may try on a list that does not support them, each with a hint of the route that does. */
const BETTER_ROUTES: ReadonlyMap<string, string> = new Map([
  ["idempotency_key", BY_KEY],
  ["key", BY_KEY],
  ["id", BY_ID],
  ["instance_id", BY_ID],
  ["q", BY_ID],
  ["search", BY_ID],
  ["correlation_id", "use `GET /v1/correlations/{id}` for a whole job"],
]);

function withBetterRoute(name: string, known: readonly string[]): Issue {
  const issue = unknownField([name], known);
  const better = BETTER_ROUTES.get(name);
  return better && issue.message.endsWith("remove it") ? { ...issue, message: `is not a parameter of this route: ${better}` } : issue;
}

const NOT_ENCODED = "is not percent-encoded UTF-8: send the character % itself as %25";

function unreadablePath(pathname: string): Issue[] {
  return decoded(pathname) === undefined ? [{ path: "path", message: NOT_ENCODED }] : [];
}

/** Checks the query of a URL before decoding, because decoding replaces invalid bytes. */
function unreadableValues(search: string): Issue[] {
  return search
    .slice(1)
    .split("&")
    .flatMap((pair) => {
      const text = decoded(pair);
      if (text !== undefined && !text.includes("\0")) return [];
      const path = beginning(pair.split("=")[0] ?? "", 64);
      return [{ path, message: text === undefined ? NOT_ENCODED : "contains the character NUL: remove it" }];
    });
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
