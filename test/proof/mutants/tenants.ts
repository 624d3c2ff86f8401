// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is looked for is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

/** What one tenant sees of another, or does to it. */
export const TENANTS = mutantsOf("tenants", {
  "tenants share their keys": {
    file: "src/engine/contract/ids.ts",
    find: 'return digest("instance", tenantId, workflow, idempotencyKey);',
    put: 'return digest("instance", workflow, idempotencyKey);',
    killedBy: "test/api/commands.test.ts",
  },
  "a wait takes another tenant's event": {
    file: "src/engine/signals/assign.ts",
    find: "s.tenant_id = waits.tenant_id AND s.type = waits.type",
    put: "s.type = waits.type",
    killedBy: "test/engine/waits.test.ts",
  },
  "operators move the instances of other tenants": {
    file: "src/engine/operate/instances.ts",
    find: "FROM instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`",
    put: "FROM instances WHERE id = ${id}`",
    killedBy: "test/engine/undo.test.ts",
  },
  "operators resolve the doubts of other tenants": {
    file: "src/engine/operate/resolve.ts",
    find: "\n        AND i.tenant_id = ${by.tenantId}`",
    put: "`",
    killedBy: "test/engine/doubt.test.ts",
  },
  "accounts of one name share a budget": {
    file: "src/objects/budgets.ts",
    find: "idFromName(`${tenantId}/${account}`)",
    put: "idFromName(account)",
    killedBy: "test/facts/derived-budgets.test.ts",
  },
});
