import type { Context, MiddlewareHandler } from "hono";
import { MillraceError, texts } from "millrace";
import { callers, HttpRefusal } from "millrace/http";
import * as z from "zod";
import { embeddedCrm } from "./embedded-crm.ts";
import type { ApiEnv } from "./env.ts";
import { operation } from "./operation.ts";

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

const guarded = {
  middleware: onlyForDrills,
  security: [{ bearer: ["embedded"] }],
  problems: ["route_not_found" as const, "invalid_payload" as const],
};

export const embedded = [
  ...embeddedCrm(guarded, control),
  operation("put", "/embedded/faults", "setFaults", undefined, {
    summary: "Set the fault rules of the embedded upstreams",
    description: "Replaces the fault rules of the embedded upstreams. The route is for development and tests only.",
    ...guarded,
    query: {},
    body: faultsSchema,
    limits: { maxBytes: MAX_BYTES },
    answer: { 204: { description: "Set" } },
    async run({ body, context }) {
      await control(context, "/faults", { method: "PUT", body: JSON.stringify(body) });
      return context.body(null, 204);
    },
  }),
  operation("delete", "/embedded/faults", "clearFaults", undefined, {
    summary: "Clear the fault rules of the embedded upstreams",
    description: "Removes all fault rules of the embedded upstreams.",
    ...guarded,
    query: {},
    answer: { 204: { description: "Cleared" } },
    async run({ context }) {
      await control(context, "/faults", { method: "DELETE" });
      return context.body(null, 204);
    },
  }),
  operation("get", "/embedded/ledger", "getEmbeddedLedger", undefined, {
    summary: "Get the effects of the embedded upstreams",
    description: "Returns the effects that the embedded upstreams recorded. Tests count duplicate effects with this list.",
    ...guarded,
    query: { upstream: z.string().optional(), match: z.string().optional() },
    answer: ["Calls and totals", z.object({ calls: z.array(z.looseObject({})), totals: z.looseObject({}) })],
    async run({ query, context }) {
      const asked = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
      const answer = await control(context, `/ledger?${new URLSearchParams(asked)}`, {});
      return answer.json<{ calls: Record<string, unknown>[]; totals: Record<string, unknown> }>();
    },
  }),
];

async function control(context: Context<ApiEnv>, path: string, init: RequestInit): Promise<Response> {
  const answer = await context.env.UPSTREAMS.fetch(`${CONTROL}${path}`, init);
  if (!answer.ok)
    throw new MillraceError("invalid_payload", `The embedded upstreams refused: ${texts.beginning(await answer.text(), 1000)}`);
  return answer;
}

function noSuchRoute(): HttpRefusal {
  return new HttpRefusal("route_not_found", "There is no such route. GET /openapi.json lists them.");
}
