// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

/** A tenant's access to another tenant's data, or effects on it. */
export const TENANTS = mutantsOf("tenants", {
  "two tenants share their keys": {
    file: "packages/millrace/src/contract/ids.ts",
    find: 'return digest("instance", tenantId, workflow, idempotencyKey);',
    put: 'return digest("instance", workflow, idempotencyKey);',
    killedBy: "test/api/commands.test.ts",
  },
  "a wait consumes another tenant's event": {
    file: "packages/millrace/src/store/signals.ts",
    find: "s.tenant_id = millrace_waits.tenant_id AND s.type = millrace_waits.type",
    put: "s.type = millrace_waits.type",
    killedBy: "test/engine/signals/waits.test.ts",
  },
  "operators change the instances of other tenants": {
    file: "packages/millrace/src/inspect/instances.ts",
    find: "SELECT ${INSTANCE_COLUMNS} FROM millrace_instances WHERE id = ${id} AND tenant_id = ${by.tenantId}`",
    put: "SELECT ${INSTANCE_COLUMNS} FROM millrace_instances WHERE id = ${id}`",
    killedBy: "test/engine/operate/undo-refused.test.ts",
  },
  "operators resolve the unknown outcomes of other tenants": {
    file: "packages/millrace/src/operate/instances/resolve.ts",
    find: "\n        AND i.tenant_id = ${by.tenantId}`",
    put: "`",
    killedBy: "test/engine/guard/doubt.test.ts",
  },
  "accounts with the same name share a budget": {
    file: "src/systems/facts/derived/budgets.ts",
    find: "idFromName(`${tenantId}/${account}`)",
    put: "idFromName(account)",
    killedBy: "test/systems/facts/derived-budgets.test.ts",
  },
  "a fact may name another tenant than its message does": {
    file: "src/systems/facts/own.ts",
    find: "if (fact.tenant_id === envelope.tenant_id) return fact;",
    put: "if (fact.tenant_id) return fact;",
    killedBy: "test/app/two-tenants.test.ts",
  },
  "a fact's row belongs to the tenant in its payload": {
    file: "src/systems/facts/projection.ts",
    find: "  const { tenant_id } = told.envelope;\n  // Times",
    put: "  const { tenant_id } = told.payload;\n  // Times",
    killedBy: "test/app/two-tenants.test.ts",
    masked: "a fact may name another tenant than its message does",
  },
  "an article is accessible to every tenant with its id": {
    file: "src/systems/content/articles.ts",
    find: "FROM articles WHERE id = ${id} AND tenant_id = ${tenantId}`",
    put: "FROM articles WHERE id = ${id}`",
    killedBy: "test/app/two-tenants.test.ts",
  },
  "an endpoint is accessible to every tenant with its id": {
    file: "src/systems/webhooks/deliveries.ts",
    find: "FROM webhook_versions v WHERE tenant_id = ${tenant_id} AND endpoint_id",
    put: "FROM webhook_versions v WHERE endpoint_id",
    killedBy: "test/app/two-tenants.test.ts",
  },
  "a payload is read from any tenant's folder": {
    file: "packages/millrace/src/contract/payload.ts",
    find: "path.startsWith(`payloads/${envelope.tenant_id}/`)",
    put: 'path.startsWith("payloads/")',
    killedBy: "test/app/two-tenants.test.ts",
  },
  "any token can request any command": {
    file: "packages/millrace/src/access/may-ask.ts",
    find: "scopes.some((scope) => scope === access.scope)",
    put: "scopes.length > 0",
    killedBy: "test/app/doors.test.ts",
  },
  "any operator can run a scheduled command": {
    file: "packages/millrace/src/schedules/change.ts",
    find: "  assertMayAsk(catalog, by, schedule.command);\n",
    put: "",
    killedBy: "test/app/doors.test.ts",
  },
  "a scheduled command starts although its permission was withdrawn": {
    file: "packages/millrace/src/schedules/due.ts",
    find: "if (on.access?.scope === null) assertMaySay({ scopes: [] }, on);",
    put: "",
    killedBy: "test/app/doors.test.ts",
  },
  "an operator can correct a message that only the deployment may send": {
    file: "packages/millrace/src/operate/letters/read-again.ts",
    find: "if (correction !== undefined && scopes !== null) assertMaySay({ scopes }, definition);",
    put: "",
    killedBy: "test/app/replays.test.ts",
  },
  "a replay may change the source of a message": {
    file: "packages/millrace/src/operate/letters/read-again.ts",
    find: '["idempotency_key", "source", "kind", "message_type"]',
    put: '["idempotency_key", "kind", "message_type"]',
    killedBy: "test/app/replays.test.ts",
  },
  "a replay may change the type of a message": {
    file: "packages/millrace/src/operate/letters/read-again.ts",
    find: 'if (field === "message_type") return kinds.length === 0;',
    put: 'if (field === "message_type") return true;',
    killedBy: "test/app/replays.test.ts",
  },
  "every tenant can use the CRM": {
    file: "src/providers/crm-account.ts",
    find: "if (named.includes(tenantId)) return;",
    put: "if (tenantId) return;",
    killedBy: "test/systems/crm/notices.test.ts",
  },
  "the deletion of a tenant leaves the parent's rows of a late child": {
    file: "packages/millrace/src/erase/remove-tenant.ts",
    find: "[...ids, ...parents]",
    put: "ids",
    killedBy: "test/engine/erase/children.test.ts",
  },
  "every tenant lives in the first cell": {
    file: "packages/millrace/src/store/cells.ts",
    find: "[tenant, await openCell(env, cell)]",
    put: "[tenant, await openCell(env, cell * 0 + 1)]",
    killedBy: "random",
  },
});
