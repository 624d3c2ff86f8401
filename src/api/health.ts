import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { pingDatabase } from "../engine/index.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problem.ts";
import { answers } from "./responses.ts";

const healthz = createRoute({
  method: "get",
  path: "/healthz",
  summary: "Say whether this deployment and its database answer",
  responses: { 200: answers("Both do", z.object({ ok: z.literal(true) })), ...problems() },
});

export function health() {
  return new OpenAPIHono<ApiEnv>().openapi(healthz, async (context) => {
    await pingDatabase(context.env);
    context.header("cache-control", "no-store");
    return context.json({ ok: true as const }, 200);
  });
}
