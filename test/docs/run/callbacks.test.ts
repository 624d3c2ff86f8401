import { env } from "cloudflare:workers";
import { createHmac } from "node:crypto";
import { expect, it } from "vitest";
import document from "../../../docs/callbacks.md?raw";
import { callerWith, fresh } from "../../api/client.ts";
import { hookUrl, received, tell } from "../../systems/webhooks/hook.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/callbacks.md prints the output under it, and the call that follows is verified as documented", {
  timeout: 90_000,
}, async () => {
  const caller = await callerWith(["enqueue", "read", "tokens"]);
  const hook = fresh("hook");
  let secret = "";
  const count = await followDocument(document, {
    given: { TOKEN: caller.token, HOOK: hookUrl(hook) },
    async before({ url }) {
      if (!url.includes("/v1/commands")) return;
      ({ secret } = (await caller.get("/v1/callback-secret")).body);
      await tell(hook, { secrets: [secret] });
    },
    copied: (body) => ({ ID: body?.instance_id }),
  });
  expect(count).toBe(5);
  const [call] = await received(hook, 1);
  expect(call?.verified).toEqual([true]);
  const [, sample = ""] = /```json\n(.*?)```/s.exec(document) ?? [];
  const said = JSON.parse(call?.body ?? "{}");
  const shown = JSON.parse(sample);
  expect([Object.keys(said), Object.keys(said.data)]).toEqual([Object.keys(shown), Object.keys(shown.data)]);
  // The page's openssl command, with this tenant's name.
  const parts = '["callback secret","acme"]'.replace("acme", caller.tenantId);
  expect(document).toContain(`printf %s '["callback secret","acme"]' | openssl dgst -sha256 -hmac`);
  expect(secret).toBe(`whsec_${createHmac("sha256", env.MILLRACE_KEY).update(parts).digest("base64")}`);
});
