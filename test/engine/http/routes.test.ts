import { createExecutionContext } from "cloudflare:test";
import { Hono } from "hono";
import { atomically } from "millrace";
import { engineRoutes, type HttpEnv, operationIn } from "millrace/http";
import { audit, type Scope, tokens } from "millrace/operate";
import { expect, it, onTestFinished } from "vitest";
import * as z from "zod";
import { ordersApi } from "../../docs/examples/api.ts";
import { withAuditOpen } from "../../opened-audit.ts";
import { app } from "../../probe/worker.ts";
import { fresh, operator, probeEnv, start } from "../harness.ts";

type Api = Pick<Hono<HttpEnv>, "fetch">;

async function asking(api: Api, scopes: readonly Scope[] = ["read", "operate"], own: readonly string[] = []) {
  const token = await tokens.mint(probeEnv, { tenantId: "acme", actor: "tess", scopes }, own);
  return async (path: string, { headers, ...init }: { method?: string; headers?: Record<string, string>; body?: string } = {}) => {
    const request = new Request(`http://localhost${path}`, { headers: { ...headers, authorization: `Bearer ${token}` }, ...init });
    const response = await api.fetch(request, probeEnv, createExecutionContext());
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
}

it("the engine's routes can be mounted into any Hono app, and the app keeps its own routes", async () => {
  const mine = new Hono<HttpEnv>().get("/hello", (context) => context.json({ hello: "there" }));
  mine.route("/", engineRoutes(app));
  const ask = await asking(mine);
  const { instanceId } = await start(fresh(), []);
  expect(await ask("/hello")).toEqual({ status: 200, body: { hello: "there" } });
  expect(await ask(`/v1/instances/${instanceId}`)).toMatchObject({ status: 200, body: { id: instanceId, workflow: "probe" } });
  expect(await ask("/v1/instances/none")).toMatchObject({ status: 404, body: { code: "instance_not_found" } });
  const stranger = await mine.fetch(new Request("http://localhost/v1/instances"), probeEnv, createExecutionContext());
  expect(stranger.status).toBe(401);
});

it("a route that is added to the engine's routes is reached, and an unknown path gets a problem document with the engine's headers", async () => {
  const api = engineRoutes(app);
  api.get("/hello", (context) => context.json({ hello: "there" }));
  const ask = await asking(api);
  expect(await ask("/hello")).toEqual({ status: 200, body: { hello: "there" } });
  expect(await ask("/nothing")).toMatchObject({ status: 404, body: { code: "route_not_found" } });
  const head = await api.fetch(new Request("http://localhost/healthz", { method: "HEAD" }), probeEnv, createExecutionContext());
  expect({ status: head.status, type: head.headers.get("x-content-type-options"), body: await head.text() }).toEqual({
    ...{ status: 200, type: "nosniff", body: "" },
  });
});

it("the custom routes of an app accept the engine's tokens, have custom error codes, and are in the same OpenAPI document", async () => {
  await probeEnv.DB.exec("CREATE TABLE orders (id TEXT PRIMARY KEY, label TEXT)");
  onTestFinished(async () => void (await probeEnv.DB.exec("DROP TABLE orders")));
  const id = fresh("order");
  await probeEnv.DB.prepare("INSERT INTO orders (id, label) VALUES (?1, 'blue')").bind(id).run();
  const api = ordersApi(app);
  const ask = await asking(api);
  expect(await ask(`/v1/orders/${id}`)).toEqual({ status: 200, body: { id, label: "blue" } });
  expect(await ask("/v1/orders/none")).toMatchObject({ status: 404, body: { code: "order_not_found", title: "No such order" } });
  expect(await ask(`/v1/orders/${id}?color=blue`)).toMatchObject({ status: 422, body: { code: "invalid_payload" } });
  expect(await (await asking(api, ["enqueue"]))(`/v1/orders/${id}`)).toMatchObject({ status: 403 });
  const document = (await ask("/openapi.json")).body as { paths: object; components: { schemas: Record<string, unknown> } };
  expect(Object.keys(document.paths)).toEqual(expect.arrayContaining(["/v1/orders/{id}", "/v1/commands"]));
  expect(JSON.stringify(document.components.schemas.Problem)).toContain('"order_not_found"');
});

it("a header that its schema refuses is refused before the handler, for a route of an app and of the engine", async () => {
  const orders = operationIn<HttpEnv>()("get", "/v1/orders", "listOrders", "orders list", {
    summary: "List the orders of a color",
    description: "Returns the color.",
    headers: { "x-color": z.enum(["blue", "red"]), "x-note": z.string().optional() },
    answer: ["The color", z.object({ color: z.string() })],
    run: ({ context }) => ({ color: context.req.header("x-color") ?? "" }),
  });
  const ask = await asking(engineRoutes(app, { routes: [[orders]], groups: [{ name: "Orders", paths: ["/v1/orders"], description: "" }] }));
  expect(await ask("/v1/orders", { headers: { "x-color": "blue", "x-note": "x" } })).toEqual({ status: 200, body: { color: "blue" } });
  for (const headers of [undefined, { "x-color": "green" }])
    expect(await ask("/v1/orders", headers && { headers })).toMatchObject({ status: 422, body: { issues: [{ path: "x-color" }] } });
  const long = await ask("/v1/stream", { headers: { "last-event-id": "9".repeat(1001) } });
  expect(long).toMatchObject({ status: 422, body: { issues: [{ path: "last-event-id" }] } });
});

it("tokens can have the custom scopes of an app, and custom verbs are in the audit", async () => {
  const own = "gpu:render";
  const ask = await asking(engineRoutes(app, { scopes: [own, "pull"], verbs: ["repaint"] }), ["read", "tokens", own, "pull"], [own]);
  const wanted = { actor: "renderer", scopes: ["pull", own] };
  const init = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...wanted, reason: "A machine." }),
  };
  expect(await ask("/v1/tokens", init)).toMatchObject({ status: 201, body: wanted });
  const minting = (scope: string, known: string[]) => tokens.mint(probeEnv, { tenantId: "acme", actor: "tess", scopes: [scope] }, known);
  await expect(minting(own, [])).rejects.toMatchObject({ code: "config_invalid" });
  await expect(minting("GPU 1", ["GPU 1"])).rejects.toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining("is invalid"),
  });
  const target = fresh("house");
  await atomically(probeEnv.DB, [
    audit(operator, { id: crypto.randomUUID(), verb: "repaint", target, instanceId: null, reason: "Faded." }, false),
  ]);
  // Other apps of the tenant do not know the verb.
  onTestFinished(() => withAuditOpen("DELETE FROM millrace_actions WHERE verb = 'repaint'"));
  const { body } = await ask("/v1/audit");
  expect(body.items).toContainEqual(expect.objectContaining({ verb: "repaint", target }));
});
