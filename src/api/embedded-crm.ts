import type { Context, MiddlewareHandler } from "hono";
import { answers, bodies, createRoute, Routes } from "millrace/http";
import * as z from "zod";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

const MAX_BYTES = 64 * 1024;

/** The embedded CRM validates the fault rules itself. */
const faultsSchema = z.array(z.looseObject({ status: z.int(), remaining: z.int().nullable() })).max(100);
const editSchema = z.strictObject({ id: z.string().nullable(), properties: z.record(z.string(), z.string()).nullable() });
const views = z.enum(["calls", "deliveries", "contacts", "companies", "associations"]);

type Guard = { middleware: MiddlewareHandler<ApiEnv>[]; security: { bearer: string[] }[] };
type Control = (context: Context<ApiEnv>, path: string, init: RequestInit) => Promise<Response>;

/**
 * The routes that control the embedded CRM in drills. They inject faults, edit records as a person would, and return the CRM's calls,
 * records and messages.
 */
export function embeddedCrm(guarded: Guard, control: Control) {
  const setFaults = createRoute({
    method: "put",
    path: "/embedded/crm/faults",
    operationId: "setCrmFaults",
    summary: "Set the fault rules of the embedded CRM",
    description:
      "Replaces the fault rules of the embedded CRM. An empty list removes all faults. The route is for development and tests only.",
    ...guarded,
    request: { query: z.strictObject({}), body: bodies.json(faultsSchema) },
    responses: {
      204: { description: "Set" },
      ...problems("route_not_found", "invalid_json", "invalid_payload", "payload_too_large", "unsupported_media_type"),
    },
  });
  const edit = createRoute({
    method: "post",
    path: "/embedded/crm/edits",
    operationId: "editInCrm",
    summary: "Edit a contact in the embedded CRM",
    description: "Creates a contact (without `id`), changes it, or removes it (without `properties`), as a user of the CRM would.",
    ...guarded,
    request: { query: z.strictObject({}), body: bodies.json(editSchema) },
    responses: {
      200: answers("The contact's present state", z.looseObject({ id: z.string() })),
      ...problems("route_not_found", "invalid_json", "invalid_payload", "payload_too_large", "unsupported_media_type"),
    },
  });
  const look = createRoute({
    method: "get",
    path: "/embedded/crm/{view}",
    operationId: "lookIntoCrm",
    summary: "Read the embedded CRM",
    description:
      "Returns the received calls, the stored contacts, companies and associations, or the webhook deliveries of the embedded CRM.",
    ...guarded,
    request: { params: z.object({ view: views }), query: z.strictObject({ match: z.string().optional() }) },
    responses: { 200: answers("What there is", z.looseObject({})), ...problems("route_not_found", "invalid_payload") },
  });

  return new Routes<ApiEnv>()
    .openapi(setFaults, async (context) => {
      const faults = await bodies.read(context.req, faultsSchema, { maxBytes: MAX_BYTES });
      await control(context, "/crm/faults", { method: "PUT", body: JSON.stringify(faults) });
      return context.body(null, 204);
    })
    .openapi(edit, async (context) => {
      const body = await bodies.read(context.req, editSchema, { maxBytes: MAX_BYTES });
      const answer = await control(context, "/crm/edits", { method: "POST", body: JSON.stringify(body) });
      return context.json(await answer.json<{ id: string }>(), 200);
    })
    .openapi(look, async (context) => {
      const { match } = context.req.valid("query");
      const query = match === undefined ? "" : `?${new URLSearchParams({ match })}`;
      const answer = await control(context, `/crm/${context.req.valid("param").view}${query}`, {});
      return context.json(await answer.json<object>(), 200);
    });
}
