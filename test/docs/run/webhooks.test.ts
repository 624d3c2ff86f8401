import { expect, it, vi } from "vitest";
import document from "../../../docs/webhooks.md?raw";
import { postWebhook } from "../../../src/steps/post-webhook.ts";
import { callerWith, fresh } from "../../api/client.ts";
import { hookUrl, hurried, outcome, tell } from "../../webhooks/hook.ts";
import { fencesOf } from "../markdown.ts";
import { curlsOf } from "./curl.ts";
import { follow, readAssignments } from "./follow.ts";

it("every command of docs/webhooks.md answers what is written under it", { timeout: 60_000 }, async () => {
  await using _ = await hurried();
  const caller = await callerWith();
  const hook = fresh("hook");
  const shells = fencesOf(document).filter(({ language }) => language === "sh");
  const variables = new Map([
    ["URL", ""],
    ["TOKEN", caller.token],
  ]);
  readAssignments(shells[0]?.text ?? "", variables);
  variables.set("HOOK", hookUrl(hook));
  const lookUp = (name: string) => {
    const value = variables.get(name);
    if (value === undefined) throw new Error(`Nothing above says what $${name} is.`);
    return value;
  };
  const curls = shells.flatMap(({ text }) => (text.includes("curl ") ? curlsOf(text) : []));
  expect(curls.length).toBeGreaterThan(15);
  for (const curl of curls) {
    if (curl.url.includes("state=failed")) {
      // What the reader of that line has behind them: a delivery that failed to the end.
      await tell(hook, { treatments: [{ status: 500, times: 6 }] });
      await outcome(caller.tenantId, { fact_id: "sale-2" });
    }
    const ask = () => follow(curl, lookUp);
    const body = await (curl.method === "GET" ? vi.waitFor(ask, { timeout: 15_000, interval: 100 }) : ask());
    if (body?.secret && body.id) variables.set("ID", body.id);
    const delivery = body?.delivery_id ?? body?.items?.[0]?.id;
    if (delivery) variables.set("DELIVERY", delivery);
  }
});

it("docs/webhooks.md names the pauses that its step makes", () => {
  const { retries } = postWebhook;
  expect(retries).toEqual({ limit: 5, delay: "10 seconds", backoff: "exponential" });
  expect(document).toContain("again after 10, 20, 40, 80 and 160 seconds");
});
