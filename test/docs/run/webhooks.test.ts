import { expect, it } from "vitest";
import document from "../../../docs/webhooks.md?raw";
import { postWebhook } from "../../../src/steps/post-webhook.ts";
import { callerWith, fresh } from "../../api/client.ts";
import { hookUrl, hurried, outcome, tell } from "../../systems/webhooks/hook.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/webhooks.md prints the output under it", { timeout: 90_000 }, async () => {
  await using _ = await hurried();
  const caller = await callerWith();
  const hook = fresh("hook");
  const count = await followDocument(document, {
    given: { TOKEN: caller.token, HOOK: hookUrl(hook) },
    async before({ url }) {
      if (!url.includes("state=failed")) return;
      // A delivery that failed permanently.
      await tell(hook, { treatments: [{ status: 500, times: 6 }] });
      await outcome(caller.tenantId, { fact_id: "sale-2" });
    },
    copied: (body) => ({
      ID: body?.secret ? body.id : undefined,
      DELIVERY: body?.delivery_id ?? body?.items?.[0]?.id,
      INSTANCE: body?.items?.[0]?.instance_id,
    }),
  });
  expect(count).toBeGreaterThan(15);
});

it("docs/webhooks.md lists the delays between the attempts to deliver a webhook", () => {
  const { retries } = postWebhook;
  expect(retries).toEqual({ limit: 5, delay: "10 seconds", backoff: "exponential" });
  expect(document).toContain("after 10, 20, 40, 80 and 160 seconds");
});
