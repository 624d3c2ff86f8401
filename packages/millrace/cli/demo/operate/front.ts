import { engineRoutes } from "millrace/http";
import { armKeeper, type Catalog, dispatch } from "millrace/worker";

/** What a demo's shop answers: the engine's routes, and `POST /outsider`, another program whose message nobody looks at before it is on the queue. */
export function shopFront(app: Catalog): ExportedHandler<Env> {
  const api = engineRoutes(app);
  const consume = dispatch(app);
  return {
    async fetch(request, env, ctx) {
      armKeeper(env, ctx);
      if (new URL(request.url).pathname !== "/outsider") return api.fetch(request, env, ctx);
      await (env as unknown as { ORDER_COMMANDS: Queue }).ORDER_COMMANDS.send(await request.json());
      return new Response(null, { status: 204 });
    },
    queue(batch, env, ctx) {
      armKeeper(env, ctx);
      return consume(batch, env);
    },
  };
}
