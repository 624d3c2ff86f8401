import { OpenAPIHono } from "@hono/zod-openapi";
import type { ApiEnv } from "./env.ts";

/** Under construction. */
export function articles() {
  return new OpenAPIHono<ApiEnv>();
}
