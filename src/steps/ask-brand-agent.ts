import { defineStep, type EffectCall, MillraceError, notRetryable } from "millrace";
import type { Audit } from "../systems/brand/brand-agent.ts";
import { brandAgentOf } from "../systems/brand/brand-agents.ts";
import type { Decided } from "../systems/brand/decide.ts";
import type { PlannedKeyword } from "../systems/brand/planner.ts";
import type { AskedKeyword, Cycle } from "../systems/brand/requests.ts";
import { assertRoomForBrand, findBrand } from "../systems/brand/settings.ts";
import { type Truth, truthOf } from "../systems/brand/truth.ts";

/** Reads the state of a brand from D1, for comparison with the state of the brand's agent. */
async function lookAtBrand(env: Env, tenantId: string, brand: string): Promise<Truth> {
  const beliefs = await brandAgentOf(env, tenantId, brand).beliefs();
  return truthOf(env.DB, tenantId, brand, beliefs);
}

/**
 * Reads the state of an existing brand from D1. Errors: `not_retryable` for a brand without settings, decisions and articles, because the
 * name is probably a typing error.
 */
export async function lookAtKnownBrand(env: Env, tenantId: string, brand: string): Promise<Truth> {
  const [known, truth] = await Promise.all([findBrand(env.DB, tenantId, brand), lookAtBrand(env, tenantId, brand)]);
  if (known || truth.articles.length > 0) return truth;
  throw notRetryable(`There is no brand "${brand}" to audit. GET /v1/brands lists them.`);
}

/** Calls a brand's agent. If the agent is new, the function first sends the brand's state to the agent. */
async function askAgent<Answer>(
  env: Env,
  of: Pick<Cycle, "tenant_id" | "brand" | "instance_id">,
  ask: (agent: ReturnType<typeof brandAgentOf>) => Promise<Answer | undefined>,
): Promise<Answer> {
  const agent = brandAgentOf(env, of.tenant_id, of.brand);
  const known = await ask(agent);
  if (known) return known;
  await agent.reconcile(of, await lookAtBrand(env, of.tenant_id, of.brand));
  const decided = await ask(agent);
  if (decided) return decided;
  throw new MillraceError("invariant", `The agent of ${of.brand} did not decide after it got the brand's state.`);
}

/**
 * Asks the brand's agent to decide a cycle. A repeated request for a cycle gets the same result. Errors: `not_retryable` if the tenant
 * would have too many brands.
 */
export const decideCycle = defineStep({
  effect: "natural",
  async run({ input: cycle, env }: EffectCall<Cycle>): Promise<PlannedKeyword[]> {
    // The number of brands is checked before the call, because the call would create an agent for a new brand.
    await assertRoomForBrand(env.DB, cycle.tenant_id, cycle.brand);
    return askAgent(env, cycle, (agent) => agent.plan(cycle));
  },
});

/**
 * Asks the brand's agent whether to research a keyword. The answer names research, drafts or articles that already exist for the keyword.
 */
export const admitKeyword = defineStep({
  effect: "natural",
  run: ({ input: asked, env }: EffectCall<AskedKeyword>): Promise<Decided> => askAgent(env, asked, (agent) => agent.admit(asked)),
});

/**
 * Sends the brand's state in D1 to the brand's agent, and returns the corrections of the agent's state. A repeated audit of the brand gets
 * the same result.
 */
export const tellAgent = defineStep({
  effect: "natural",
  run: ({
    input: { truth, ...of },
    env,
  }: EffectCall<{ tenant_id: string; brand: string; instance_id: string; truth: Truth }>): Promise<Audit> =>
    brandAgentOf(env, of.tenant_id, of.brand).reconcile(of, truth),
});
