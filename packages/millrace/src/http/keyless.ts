import type { HonoRequest } from "hono";
import { invalidRequest } from "./invalid-request.ts";
import type { Route } from "./router.ts";

const NAMED_BY: Readonly<Record<string, string>> = {
  "POST /v1/catalog/check": "it writes nothing; to check a key, send `idempotency_key` in the body",
  "POST /v1/commands/batch": "a batch has one key per item: set `idempotency_key` in each item",
  "POST /v1/events/batch": "a batch has one key per item: set `idempotency_key` in each item",
  "POST /mcp": "a repeated act is refused, because its plan has changed since its confirmation",
  "POST /v1/stream-tokens": "each request mints a token, which is not stored",
  "POST /v1/sign-in-codes": "a code is returned once and never repeated",
  "POST /v1/tokens": "a token is returned once and never repeated",
};

/**
 * Refuses `Idempotency-Key` on a route that does not document it, other than a GET, because a sender of this header expects that the
 * request can be repeated. `namedBy` has the reasons of the app's routes. Errors: `invalid_payload`.
 */
export function refuseKey({ method, path, request }: Route, asked: HonoRequest, namedBy: Readonly<Record<string, string>>): void {
  if (method === "get" || asked.header("idempotency-key") === undefined) return;
  if (request?.headers && Object.hasOwn(request.headers.shape, "idempotency-key")) return;
  const named = method.toUpperCase();
  const why =
    { ...NAMED_BY, ...namedBy }[`${named} ${path}`] ??
    (method === "post" ? "its path identifies the changed item" : `a ${named} can be repeated safely`);
  throw invalidRequest([{ path: "Idempotency-Key", message: `is not read by this route: ${why}. Leave the header out` }]);
}
