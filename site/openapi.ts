import { builtRoutes } from "../packages/millrace/src/http/engine-routes.ts";
import { ownRoutes } from "../src/api/app.ts";
import { app } from "../src/catalog.ts";

/**
 * Returns `/openapi.json` as the Worker of this repository serves it. The bindings are substitutes, because that route reads no binding.
 */
export async function openApi(): Promise<unknown> {
  const none = { DB: {}, PAYLOADS: {}, RECORDER: {}, KEEPER: {}, MILLRACE_KEY: "0".repeat(64) };
  const answer = await builtRoutes(app, ownRoutes(), new WeakSet()).request("/openapi.json", {}, none);
  if (!answer.ok) throw new Error(`GET /openapi.json: ${answer.status} ${await answer.text()}`);
  return answer.json();
}
