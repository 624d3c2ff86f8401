import { defineStep, type EffectCall, MillraceError, notRetryable } from "millrace";
import type { Audit } from "../systems/brand/brand-agent.ts";
import { brandAgentOf } from "../systems/brand/brand-agents.ts";
import type { Decided } from "../systems/brand/decide.ts";
import type { PlannedKeyword } from "../systems/brand/planner.ts";
import type { AskedKeyword, Cycle } from "../systems/brand/requests.ts";
import { assertRoomForBrand, findBrand } from "../systems/brand/settings.ts";
import { type Truth, truthOf } from "../systems/brand/truth.ts";

/** What D1 really has of a brand, measured against what its agent believes. */
async function lookAtBrand(env: Env, tenantId: string, brand: string): Promise<Truth> {
  const beliefs = await brandAgentOf(env, tenantId, brand).beliefs();
  return truthOf(env.DB, tenantId, brand, beliefs);
}

/**
 * The same for a brand that is known. Errors: `not_retryable` for one that nobody has set anything for, that never decided and has no
 * article: a slip of the pen.
 */
export async function lookAtKnownBrand(env: Env, tenantId: string, brand: string): Promise<Truth> {
  const [known, truth] = await Promise.all([findBrand(env.DB, tenantId, brand), lookAtBrand(env, tenantId, brand)]);
  if (known || truth.articles.length > 0) return truth;
  throw notRetryable(`There is no brand "${brand}" to audit. GET /v1/brands lists them.`);
}

/** What a brand's agent answers. One that is new is told first what there is. */
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
  throw new MillraceError("invariant", `The agent of ${of.brand} did not decide after it was told what there is.`);
}

/**
 * Has the brand's agent decide a cycle. It remembers cycles: asked again, it answers the same. Errors: `not_retryable` for a brand that is
 * one more than a tenant may have.
 */
export const decideCycle = defineStep({
  effect: "natural",
  async run({ input: cycle, env }: EffectCall<Cycle>): Promise<PlannedKeyword[]> {
    // Before the agent, which would come into being.
    await assertRoomForBrand(env.DB, cycle.tenant_id, cycle.brand);
    return askAgent(env, cycle, (agent) => agent.plan(cycle));
  },
});

/** Asks the brand's agent whether a keyword is to be researched, or what is there instead. */
export const admitKeyword = defineStep({
  effect: "natural",
  run: ({ input: asked, env }: EffectCall<AskedKeyword>): Promise<Decided> => askAgent(env, asked, (agent) => agent.admit(asked)),
});

/**
 * Tells the brand's agent what D1 really has, and answers what it had believed otherwise. It remembers audits: told again, it answers the
 * same.
 */
export const tellAgent = defineStep({
  effect: "natural",
  run: ({
    input: { truth, ...of },
    env,
  }: EffectCall<{ tenant_id: string; brand: string; instance_id: string; truth: Truth }>): Promise<Audit> =>
    brandAgentOf(env, of.tenant_id, of.brand).reconcile(of, truth),
});
