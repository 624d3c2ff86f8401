// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const ENDPOINTS = "src/systems/webhooks/endpoints.ts";
const RETENTION = "test/systems/webhooks/retention.test.ts";
const POST = "src/steps/post-webhook.ts";

/** Requests that must not be sent, or must not be accepted. */
export const WEBHOOKS = mutantsOf("webhooks", {
  "redirects are followed": {
    file: POST,
    find: 'redirect: "manual"',
    put: 'redirect: "follow"',
    killedBy: "test/systems/webhooks/failing.test.ts",
  },
  "addresses inside a network are called": {
    file: "src/systems/webhooks/address.ts",
    find: 'if (parsed.range() !== "unicast") return false;',
    put: "",
    killedBy: "test/systems/webhooks/guard.test.ts",
  },
  "a disabled endpoint still gets open deliveries": {
    file: "src/systems/webhooks/deliveries.ts",
    find: "SELECT version, url, state,",
    put: "SELECT version, url, 'enabled' AS state,",
    killedBy: "test/systems/webhooks/deliver.test.ts",
  },
  "an old secret signs forever": {
    file: "src/systems/webhooks/deliveries.ts",
    find: " AND (s.valid_until IS NULL OR s.valid_until > ${sql.now})) AS generations",
    put: ") AS generations",
    killedBy: "test/systems/webhooks/secrets.test.ts",
  },
  "several concurrent requests each repeat a delivery": {
    file: "src/systems/webhooks/deliveries.ts",
    find: "'pending', NULL),",
    put: "'pending', d.state),",
    killedBy: "test/systems/webhooks/redeliver.test.ts",
  },
  "a late 410 changes a deleted endpoint": {
    file: ENDPOINTS,
    find: " AND replaced_at IS NULL AND state <> 'deleted' AND ${so}`",
    put: " AND replaced_at IS NULL AND (${so} OR true)`",
    killedBy: RETENTION,
    masked: "a late 410 replaces a newer version of the endpoint",
  },
  "a late 410 replaces a newer version of the endpoint": {
    file: ENDPOINTS,
    find: "AND endpoint_id = ${id} AND version = ${expected} AND replaced_at IS NULL",
    put: "AND endpoint_id = ${id} AND version >= ${expected} AND replaced_at IS NULL",
    killedBy: RETENTION,
  },
  "a deleted endpoint is removed before its deliveries": {
    file: "src/systems/webhooks/retention.ts",
    find: "\n        AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.tenant_id = v.tenant_id AND d.endpoint_id = v.endpoint_id)",
    put: "",
    killedBy: RETENTION,
  },
  "an endpoint's versions are removed while a fact can still refer to them": {
    file: "src/systems/webhooks/retention.ts",
    find: "MATCHED_FOR_DAYS, everyHours",
    put: "30, everyHours",
    killedBy: RETENTION,
  },
  "a receiver's Retry-After is ignored": {
    file: POST,
    find: "if (delayMs !== undefined) throw retryAfter(",
    put: "if (delayMs === 0) throw retryAfter(",
    killedBy: "test/systems/webhooks/failing.test.ts",
  },
});
