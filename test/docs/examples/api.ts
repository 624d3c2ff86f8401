import { MillraceError, query, sql } from "millrace";
import { engineProblems, engineRoutes, type HttpEnv, operationIn } from "millrace/http";
import type { Catalog } from "millrace/worker";
import * as z from "zod";

const PROBLEMS = {
  ...engineProblems.all,
  order_not_found: { status: 404, title: "No such order", meaning: "No order of yours has this id.", next: "Check its spelling." },
};
const operation = operationIn<HttpEnv, keyof typeof PROBLEMS>();

/** Routes with their handlers. A GET needs the scope `read`, other methods `operate`, unless `needs(…)` names others. */
const orders = [
  operation("get", "/v1/orders/{id}", "getOrder", "orders show", {
    summary: "Show an order",
    description: "Returns the order with its label.",
    answer: ["The order", z.object({ id: z.string(), label: z.string().nullable() })],
    problems: ["order_not_found"],
    async run({ env, param: { id } }) {
      const [order] = await query<{ id: string; label: string | null }>(env.DB, sql`SELECT id, label FROM orders WHERE id = ${id}`);
      if (!order) throw new MillraceError("order_not_found", `There is no order ${id}.`);
      return order;
    },
  }),
];

/** The routes of the engine and of the shop, with the same tokens and one OpenAPI document. */
export function ordersApi(app: Catalog) {
  const groups = [{ name: "Orders", paths: ["/v1/orders"], description: "What customers bought." }];
  return engineRoutes(app, { routes: [orders], groups, problems: PROBLEMS });
}
