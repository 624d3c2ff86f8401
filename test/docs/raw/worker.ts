import { api } from "./api.ts";
import { consume } from "./consumers.ts";
import type { RawEnv } from "./env.ts";
import { sweep } from "./sweep.ts";

export { WelcomeCustomer } from "./welcome-customer.ts";

// The chain of docs/write-a-chain.md on plain Workflows, Queues and D1, with the same contract, for comparison.
export default {
  fetch: (request, env, ctx) => api.fetch(request, env, ctx),
  queue: consume,
  scheduled: (_controller, env) => sweep(env),
} satisfies ExportedHandler<RawEnv>;
