import { expect, it } from "vitest";
import { callerWith, type Json, send } from "../api/client.ts";
import { draft, publish } from "../systems/content/article.ts";
import { endpoint, outcome, received } from "../systems/webhooks/hook.ts";
import { runTool } from "./toolbox.ts";

it("a delivery is verified by Svix's library, and a delivery that was changed in transit is not", async () => {
  const caller = await callerWith();
  const { hook, secret } = await endpoint(caller);
  await outcome(caller.tenantId);
  const [delivery] = await received(hook, 1);
  const { body = "", headers = {} } = delivery ?? {};
  const changed = { body: body.replace("1200", "9900"), headers };
  expect(await runTool("svix", { secret, deliveries: [{ body, headers }, changed] })).toEqual([
    "taken",
    expect.stringContaining("No matching signature"),
  ]);
});

it("a brand's feed is parsed unchanged by a feed reader's library", async () => {
  const caller = await callerWith();
  const article = await publish(caller, await draft(caller, { text: "# Tea & <b>time</b>\n\nIt is a *plant*." }));
  const { body } = await send(`/pages/${caller.tenantId}/acme/feed.xml`);
  const feed: Json = await runTool("feed", { xml: body });
  expect(feed).toMatchObject({ title: expect.stringContaining("acme"), feedUrl: expect.stringContaining("/acme/feed.xml") });
  expect(feed.items).toHaveLength(1);
  expect(feed.items[0]).toMatchObject({ link: article.url, isoDate: expect.stringMatching(/Z$/) });
  expect(feed.items[0].title).toContain("Tea &");
});
