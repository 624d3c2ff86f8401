import { MillraceError, query, sql } from "millrace";
import { answers, createRoute, engineProblems, engineRoutes, type HttpEnv, needs, Routes } from "millrace/http";
import type { Catalog } from "millrace/worker";
import * as z from "zod";

const PROBLEMS = {
  ...engineProblems.all,
  order_not_found: { status: 404, title: "No such order", means: "No order of yours has this id.", next: "Check its spelling." },
};
const problems = engineProblems.documents(PROBLEMS);

const show = createRoute({
  method: "get",
  path: "/v1/orders/{id}",
  operationId: "getOrder",
  summary: "Show an order",
  ...needs("read"),
  request: { params: z.object({ id: z.string() }) },
  responses: {
    200: answers("The order", z.object({ id: z.string(), label: z.string().nullable() })),
    ...problems("unauthorized", "forbidden", "order_not_found"),
  },
});

const orders = new Routes<HttpEnv>().openapi(show, async ({ env, req, json }) => {
  const { id } = req.valid("param");
  const [order] = await query<{ id: string; label: string | null }>(env.DB, sql`SELECT id, label FROM orders WHERE id = ${id}`);
  if (!order) throw new MillraceError("order_not_found", `There is no order ${id}.`);
  return json(order, 200);
});

/** The routes of the engine and of the shop, with the same tokens and one OpenAPI document. */
export function ordersApi(app: Catalog) {
  const groups = [{ name: "Orders", paths: ["/v1/orders"], description: "What customers bought." }];
  return engineRoutes(app, { routes: [orders], groups, problems: PROBLEMS });
}
