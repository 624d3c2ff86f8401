// The Worker of `npm run demo -- observe`: this deployment's own, with two differences. What is over counts as over sooner, and somebody
// else sends to one of its queues.
// First of all: routes teach the schemas of messages what the API's document says of them.
export * from "../../../../../src/worker.ts";

import { keeper } from "millrace/worker";
import { app } from "../../../../../src/catalog.ts";
import { checks } from "../../../../../src/systems/checks.ts";
import { gauges } from "../../../../../src/systems/gauges.ts";
import { retention } from "../../../../../src/systems/retention.ts";
import deployed from "../../../../../src/worker.ts";

/** What is over must stay so for two seconds, not for two minutes. */
const SOON = { clearMs: 2000 };

export class Keeper extends keeper({
  catalog: app,
  retention,
  checks,
  gauges,
  alerts: { instances_errored: SOON, dead_letter_arrived: SOON },
}) {}

export default {
  ...deployed,
  /** `POST /outsider` is another program that may send to the queue: nobody has looked at its messages before they are there. */
  async fetch(request, env, ctx) {
    if (new URL(request.url).pathname !== "/outsider") return deployed.fetch(request, env, ctx);
    const messages = await request.json<unknown[]>();
    await env.GATHERFEED_COMMANDS.sendBatch(messages.map((body) => ({ body })));
    return new Response(null, { status: 204 });
  },
} satisfies ExportedHandler<Env>;
