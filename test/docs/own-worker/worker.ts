import { defineCommand, defineConsumer, defineQueue, defineWorkflow, now, sql } from "millrace";
import { engineRoutes } from "millrace/http";
import { armKeeper, catalog, dispatch, entrypoint, keeper, keeperOf } from "millrace/worker";
import * as z from "zod";

const greetings = defineQueue({ name: "greetings" });

/** Greet somebody: each name once. */
const GreetingSend = defineCommand({
  type: "greeting.send",
  payload: z.object({ name: z.string().min(1).max(100) }),
  key: ({ name }) => name,
  subject: ({ name }) => name,
  queue: greetings,
});

const greet = defineWorkflow({
  name: "greet",
  on: GreetingSend,
  async run({ payload: { name }, step, envelope: { tenant_id } }) {
    const row = sql`INSERT INTO greetings (tenant_id, name, at) VALUES (${tenant_id}, ${name}, ${now})`;
    await step.commit("write it down", () => ({ statements: [row] }));
    return { said: `Good morning, ${name}.` };
  },
});

const app = catalog({ consumers: [defineConsumer({ queue: greetings, starts: [greet] })] });

// What the platform starts: by these names in wrangler.jsonc.
export { Recorder } from "millrace/worker";
export class Keeper extends keeper({ catalog: app }) {}
export class Greet extends entrypoint(greet, app) {}

const api = engineRoutes(app);
const consume = dispatch(app);

export default {
  fetch(request, env, ctx) {
    armKeeper(env, ctx);
    return api.fetch(request, env, ctx);
  },
  queue(batch, env, ctx) {
    armKeeper(env, ctx);
    return consume(batch, env);
  },
  async scheduled(_controller, env, ctx) {
    armKeeper(env, ctx);
    await keeperOf(env).startDue();
  },
} satisfies ExportedHandler<Env>;
