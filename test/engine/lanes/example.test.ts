import { env } from "cloudflare:workers";
import { expect, it, onTestFinished } from "vitest";
import worker, { type OrderChange } from "../../docs/examples/lane.ts";
import { fresh, rows, until } from "../harness.ts";
import { laneEnv } from "./lab.ts";

it("the example of docs/lanes.md writes an order's events in order, and a repeated key once", async () => {
  await env.DB.exec("CREATE TABLE order_log (id TEXT PRIMARY KEY, order_id TEXT, status TEXT)");
  onTestFinished(async () => void (await env.DB.exec("DROP TABLE order_log")));
  const order = fresh("order");
  const post = async (status: OrderChange["status"], key: string) => {
    const request = new Request("http://shop/", {
      method: "POST",
      headers: { "Idempotency-Key": key },
      body: JSON.stringify({ order, status }),
    });
    const answer = await worker.fetch(request, { ...laneEnv, DB: env.DB });
    return ((await answer.json()) as { duplicate: boolean }).duplicate;
  };
  expect([await post("paid", "1"), await post("packed", "2"), await post("packed", "2"), await post("shipped", "3")]).toEqual([
    ...[false, false, true, false],
  ]);
  const written = await until(
    () => rows<{ status: string }>("SELECT status FROM order_log WHERE order_id = ?1 ORDER BY rowid", order),
    (seen) => seen.length === 3,
  );
  expect(written.map(({ status }) => status)).toEqual(["paid", "packed", "shipped"]);
});
