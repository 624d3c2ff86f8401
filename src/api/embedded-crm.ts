import type { Context } from "hono";
import { answers } from "millrace/http";
import * as z from "zod";
import type { ApiEnv } from "./env.ts";
import { operation } from "./operation.ts";

const limits = { maxBytes: 64 * 1024 };

/** The embedded CRM validates the fault rules itself. */
const faultsSchema = z.array(z.looseObject({ status: z.int(), remaining: z.int().nullable() })).max(100);
const editSchema = z.strictObject({ id: z.string().nullable(), properties: z.record(z.string(), z.string()).nullable() });
const views = z.enum(["calls", "deliveries", "contacts", "companies", "associations"]);

type Guard = Pick<Parameters<typeof operation>[4], "middleware" | "security" | "problems">;
type Control = (context: Context<ApiEnv>, path: string, init: RequestInit) => Promise<Response>;

/**
 * The routes that control the embedded CRM in drills. They inject faults, edit records as a person would, and return the CRM's calls,
 * records and messages.
 */
export function embeddedCrm(guarded: Guard, control: Control) {
  return [
    operation("put", "/embedded/crm/faults", "setCrmFaults", undefined, {
      summary: "Set the fault rules of the embedded CRM",
      description:
        "Replaces the fault rules of the embedded CRM. An empty list removes all faults. The route is for development and tests only.",
      ...guarded,
      ...{ query: {}, body: faultsSchema, limits },
      answer: { 204: { description: "Set" } },
      async run({ body, context }) {
        await control(context, "/crm/faults", { method: "PUT", body: JSON.stringify(body) });
        return context.body(null, 204);
      },
    }),
    operation("post", "/embedded/crm/edits", "editInCrm", undefined, {
      summary: "Edit a contact in the embedded CRM",
      description: "Creates a contact (without `id`), changes it, or removes it (without `properties`), as a user of the CRM would.",
      ...guarded,
      ...{ query: {}, body: editSchema, limits },
      answer: ["The contact's present state", z.looseObject({ id: z.string() })],
      async run({ body, context }) {
        const answer = await control(context, "/crm/edits", { method: "POST", body: JSON.stringify(body) });
        return answer.json<{ id: string }>();
      },
    }),
    operation("get", "/embedded/crm/{view}", "lookIntoCrm", undefined, {
      summary: "Read the embedded CRM",
      description:
        "Returns the received calls, the stored contacts, companies and associations, or the webhook deliveries of the embedded CRM.",
      ...guarded,
      params: { view: views },
      query: { match: z.string().optional() },
      answer: { 200: answers("What there is", z.looseObject({})) },
      async run({ param, query: { match }, context }) {
        const query = match === undefined ? "" : `?${new URLSearchParams({ match })}`;
        const answer = await control(context, `/crm/${param.view}${query}`, {});
        return context.json(await answer.json<object>(), 200);
      },
    }),
  ];
}
