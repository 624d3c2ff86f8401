import { env } from "cloudflare:workers";
import { describe } from "vitest";
import { keepsItsPromises } from "./promises.ts";
import worker from "./worker.ts";

let tenants = 0;
const expire = "UPDATE effects SET lease_until = 0 WHERE state = 'claimed'";

describe("The chain on raw Workflows", () => {
  keepsItsPromises(async () => {
    const tenantId = `raw-${++tenants}`;
    const callers = JSON.parse((env as unknown as { TOKENS?: string }).TOKENS ?? "{}");
    Object.assign(env, { TOKENS: JSON.stringify({ ...callers, [tenantId]: { tenantId, actor: "tess" } }) });
    const names = { audit: "actions", command: "customer.welcome", queue: "customer-commands", event: "customer.welcomed" };
    return { worker, tenantId, token: tenantId, expire, ...names };
  });
});
