import type { HonoRequest } from "hono";
import { invalidRequest } from "./invalid-request.ts";
import type { Route } from "./router.ts";

/** What names the work where a route has a name for it in its body; an app adds those of its own routes. */
const NAMED_BY: Readonly<Record<string, string>> = {
  "POST /v1/catalog/check": "it writes nothing; to ask about a key of your own, send `idempotency_key`",
  "POST /v1/commands/batch": "it cannot name a whole batch, so give each item its `idempotency_key`",
  "POST /v1/events/batch": "it cannot name a whole batch, so give each item its `idempotency_key`",
  "POST /v1/stream-tokens": "a token is minted for each who asks, and nothing is kept of it",
  "POST /v1/sign-in-codes": "a code is said once, and to nobody who asks again",
  "POST /v1/tokens": "a token is said once, and to nobody who asks again",
};

/**
 * Refuses `Idempotency-Key` on a route that does not document it, other than a GET: its sender expects that the request can be repeated.
 * `namedBy` holds the app's own reasons. Errors: `invalid_payload`.
 */
export function refuseKey({ method, path, request }: Route, asked: HonoRequest, namedBy: Readonly<Record<string, string>>): void {
  if (method === "get" || asked.header("idempotency-key") === undefined) return;
  if (request?.headers && Object.hasOwn(request.headers.shape, "idempotency-key")) return;
  const named = method.toUpperCase();
  const why =
    { ...NAMED_BY, ...namedBy }[`${named} ${path}`] ??
    (method === "post" ? "what it does has a name by its path" : `a ${named} can be sent again as it is`);
  throw invalidRequest([{ path: "Idempotency-Key", message: `is not read by this route: ${why}. Leave the header out` }]);
}
