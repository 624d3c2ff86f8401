import { placed } from "millrace/worker";
import type { BrandAgent } from "./brand-agent.ts";

/** Returns the agent of one of a tenant's brands. */
export function brandAgentOf(env: Env, tenantId: string, brand: string): DurableObjectStub<BrandAgent> {
  return env.BRAND_AGENT.get(env.BRAND_AGENT.idFromName(`${tenantId}/${brand}`), placed(env));
}
