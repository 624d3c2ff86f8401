// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what is looked for is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const POST = "src/steps/post-webhook.ts";

/** Requests that must not be made, or not be believed. */
export const WEBHOOKS = mutantsOf("webhooks", {
  "redirects are followed": {
    file: POST,
    find: 'redirect: "manual"',
    put: 'redirect: "follow"',
    killedBy: "test/webhooks/failing.test.ts",
  },
  "addresses inside a network are called": {
    file: "src/webhooks/address.ts",
    find: 'if (parsed.range() !== "unicast") return false;',
    put: "",
    killedBy: "test/webhooks/guard.test.ts",
  },
  "an endpoint that is switched off still gets what is under way": {
    file: POST,
    find: 'if (target?.state !== "enabled") return',
    put: "if (target === undefined) return",
    killedBy: "test/webhooks/deliver.test.ts",
  },
  "an old secret signs for ever": {
    file: "src/webhooks/deliveries.ts",
    find: " AND (s.valid_until IS NULL OR s.valid_until > ${now})) AS generations",
    put: ") AS generations",
    killedBy: "test/webhooks/secrets.test.ts",
  },
  "a receiver that asks for patience is not heard": {
    file: POST,
    find: "if (delayMs !== undefined) throw retryAfter(",
    put: "if (delayMs === 0) throw retryAfter(",
    killedBy: "test/webhooks/failing.test.ts",
  },
});
