// The Worker of `npm run demo -- lean`: the engine, and one chain twice, once in each mode.
import { engineRoutes } from "millrace/http";
import { armKeeper, catalog, dispatch, entrypoint, keeper } from "millrace/worker";
import { shipLean, shipOnPlatform, shopConsumers } from "./shop.ts";

const app = catalog({ consumers: shopConsumers });
const api = engineRoutes(app);
const consume = dispatch(app);

export { Recorder } from "millrace/worker";
export class Keeper extends keeper({ catalog: app }) {}
export class ShipPlatform extends entrypoint(shipOnPlatform, app) {}
export class ShipLean extends entrypoint(shipLean, app) {}

export default {
  async fetch(request, env, ctx) {
    armKeeper(env, ctx);
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== "/wake") return api.fetch(request, env, ctx);
    await wake(env, searchParams.get("workflow") ?? "", await request.json<string[]>());
    return new Response(null, { status: 204 });
  },
  queue(batch, env, ctx) {
    armKeeper(env, ctx);
    return consume(batch, env);
  },
} satisfies ExportedHandler<Env>;

/**
 * Speaks to runs that a killed process was at: the local platform leaves them where they stand until somebody does. The keeper would after
 * ten seconds; deployed, the platform wakes such runs itself.
 */
async function wake(env: object, workflow: string, ids: readonly string[]): Promise<void> {
  const binding = (env as Record<string, Workflow>)[workflow];
  await Promise.allSettled(ids.map(async (id) => (await binding?.get(id))?.sendEvent({ type: "wake", payload: {} })));
}
