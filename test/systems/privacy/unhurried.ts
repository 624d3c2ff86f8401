import { introspectWorkflow } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { onTestFinished } from "vitest";

/** Nothing that forgets somebody, or deletes a tenant, waits in this test for what is under way. */
export async function unhurried(workflow: "FORGET_CONTACT" | "DELETE_TENANT"): Promise<void> {
  const introspector = await introspectWorkflow(env[workflow]);
  await introspector.modifyAll((instance) => instance.disableSleeps());
  onTestFinished(() => introspector.dispose());
}
