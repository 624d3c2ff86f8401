import { HttpRefusal } from "millrace/http";
import { brandAgentOf } from "../systems/brand/brand-agents.ts";
import { findBrand } from "../systems/brand/settings.ts";
import type { ApiEnv } from "./env.ts";

/** Returns the agent of the caller's brand. Errors: `brand_not_found`. */
export async function agentOf(env: ApiEnv["Bindings"], tenantId: string, brand: string) {
  const agent = brandAgentOf(env, tenantId, brand);
  const [known, state] = await Promise.all([findBrand(env.DB, tenantId, brand), agent.state()]);
  if (!known && !state) throw unknownBrand(brand);
  return agent;
}

/** Creates the error for an unknown brand. */
export function unknownBrand(brand: string): HttpRefusal {
  return new HttpRefusal(
    "brand_not_found",
    `There is no brand ${brand}. Create it with its first cycle, or with PUT /v1/brands/${brand}. GET /v1/brands lists all brands.`,
  );
}
