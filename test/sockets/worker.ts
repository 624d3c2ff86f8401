import { Hono } from "hono";
import { type HttpEnv, pullRoutes, roomRoutes } from "millrace/http";
import { tokens } from "millrace/operate";
import { PULL_SCOPE } from "../../packages/millrace/src/pull/definition.ts";
import { askForRender, renders } from "../docs/examples/pull.ts";
import { announce, desk } from "../docs/examples/room.ts";

export { PullQueues } from "../docs/examples/pull.ts";
export { Rooms } from "../docs/examples/room.ts";

/** Rooms and pull queues in an app that uses no other part of the engine, except the table of tokens. */
const app = new Hono<{ Bindings: HttpEnv["Bindings"] & Cloudflare.Env }>();
app.route("/", roomRoutes([desk]));
app.route("/", pullRoutes([renders]));
app.post("/say/:n", async ({ env, req, json }) => json(await announce(env, "acme", req.param("n"), req.param("n"))));
app.post("/render/:scene", async ({ env, req, json }) => json(await askForRender(env, "acme", Number(req.param("scene")))));
app.post("/tokens", async ({ env, text }) => {
  await env.DB.exec(
    "CREATE TABLE IF NOT EXISTS millrace_tokens (id PRIMARY KEY, hash, tenant_id, actor, scopes, created_at, expires_at, minted_by, used_at, signed_in DEFAULT 0)",
  );
  return text(await tokens.mint(env, { tenantId: "acme", actor: "renderer", scopes: [PULL_SCOPE] }));
});

export default app;
