import { expect, it } from "vitest";
import document from "../../../docs/publishing.md?raw";
import { callerWith, type Json } from "../../api/client.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/publishing.md prints the output under it", { timeout: 90_000 }, async () => {
  const caller = await callerWith(["enqueue", "read", "operate"], "acme");
  const count = await followDocument(document, {
    given: { TOKEN: caller.token },
    copied: (body: Json) => {
      const [first] = body?.items ?? [];
      return {
        APPROVAL: first?.question && first.id,
        ARTICLE: first?.details?.content_id,
        PAGE: first?.url && first.keyword !== "sencha" && new URL(first.url).pathname,
        SENCHA: first?.keyword === "sencha" && first.id,
      };
    },
  });
  expect(count).toBeGreaterThan(12);
});
