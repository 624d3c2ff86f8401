import type { Context, MiddlewareHandler } from "hono";
import { MillraceError, texts } from "millrace";
import { answers, bodies, callers, createRoute, HttpRefusal, Routes } from "millrace/http";
import * as z from "zod";
import { embeddedCrm } from "./embedded-crm.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

const CONTROL = "https://control.embedded";
const MAX_BYTES = 64 * 1024;

/** The embedded upstreams validate the fault rules themselves. */
const faultsSchema = z
  .array(z.looseObject({ upstream: z.string(), match: z.string(), status: z.int().optional(), answer: z.string().optional() }))
  .max(100);

/**
 * Protects routes that only drills use. If EMBEDDED_CONTROL is off, or the token lacks the scope, the route responds as if it did not exist
 * (404).
 */
const onlyForDrills: MiddlewareHandler<ApiEnv> = async (context, next) => {
  const caller = context.env.EMBEDDED_CONTROL === "true" ? await callers.of(context) : undefined;
  if (!caller?.scopes.includes("embedded")) throw noSuchRoute();
  await next();
};

const guarded = { middleware: [onlyForDrills], security: [{ bearer: ["embedded"] }] };

const setFaults = createRoute({
  method: "put",
  path: "/embedded/faults",
  operationId: "setFaults",
  summary: "Set the fault rules of the embedded upstreams",
  description: "Replaces the fault rules of the embedded upstreams. The route is for development and tests only.",
  ...guarded,
  request: { query: z.strictObject({}), body: bodies.json(faultsSchema) },
  responses: {
    204: { description: "Set" },
    ...problems("route_not_found", "invalid_json", "invalid_payload", "payload_too_large", "unsupported_media_type"),
  },
});

const clearFaults = createRoute({
  method: "delete",
  path: "/embedded/faults",
  operationId: "clearFaults",
  summary: "Clear the fault rules of the embedded upstreams",
  description: "Removes all fault rules of the embedded upstreams.",
  ...guarded,
  request: { query: z.strictObject({}) },
  responses: { 204: { description: "Cleared" }, ...problems("route_not_found", "invalid_payload") },
});

const readLedger = createRoute({
  method: "get",
  path: "/embedded/ledger",
  operationId: "getEmbeddedLedger",
  summary: "Get the effects of the embedded upstreams",
  description: "Returns the effects that the embedded upstreams recorded. Tests count duplicate effects with this list.",
  ...guarded,
  request: { query: z.strictObject({ upstream: z.string().optional(), match: z.string().optional() }) },
  responses: {
    200: answers("Calls and totals", z.object({ calls: z.array(z.looseObject({})), totals: z.looseObject({}) })),
    ...problems("route_not_found", "invalid_payload"),
  },
});

export function embedded() {
  return new Routes<ApiEnv>()
    .route("/", embeddedCrm(guarded, control))
    .openapi(setFaults, async (context) => {
      const faults = await bodies.read(context.req, faultsSchema, { maxBytes: MAX_BYTES });
      await control(context, "/faults", { method: "PUT", body: JSON.stringify(faults) });
      return context.body(null, 204);
    })
    .openapi(clearFaults, async (context) => {
      await control(context, "/faults", { method: "DELETE" });
      return context.body(null, 204);
    })
    .openapi(readLedger, async (context) => {
      const asked = Object.entries(context.req.valid("query")).filter((entry): entry is [string, string] => entry[1] !== undefined);
      const answer = await control(context, `/ledger?${new URLSearchParams(asked)}`, {});
      return context.json(await answer.json<{ calls: object[]; totals: object }>(), 200);
    });
}

async function control(context: Context<ApiEnv>, path: string, init: RequestInit): Promise<Response> {
  const answer = await context.env.UPSTREAMS.fetch(`${CONTROL}${path}`, init);
  if (!answer.ok)
    throw new MillraceError("invalid_payload", `The embedded upstreams refused: ${texts.beginning(await answer.text(), 1000)}`);
  return answer;
}

function noSuchRoute(): HttpRefusal {
  return new HttpRefusal("route_not_found", "There is no such route. GET /openapi.json lists them.");
}
