import { OpenAPIHono } from "@hono/zod-openapi";
import type { Catalog } from "../engine/index.ts";
import type { ApiEnv } from "./env.ts";

/** Under construction. */
export function brands(_catalog: Catalog) {
  return new OpenAPIHono<ApiEnv>();
}
