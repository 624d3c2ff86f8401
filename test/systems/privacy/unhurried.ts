import { introspectWorkflow } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { onTestFinished } from "vitest";

/** In this test an erasure, or a deletion of a tenant, does not wait for running work. */
export async function unhurried(workflow: "FORGET_CONTACT" | "DELETE_TENANT"): Promise<void> {
  const introspector = await introspectWorkflow(env[workflow]);
  await introspector.modifyAll((instance) => instance.disableSleeps());
  onTestFinished(() => introspector.dispose());
}
