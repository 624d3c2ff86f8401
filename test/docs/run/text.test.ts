import { expect, it } from "vitest";
import document from "../../../docs/text.md?raw";
import { mayAskAgain } from "../../../src/systems/content/next-ask.ts";
import { callerWith } from "../../api/client.ts";
import { rowsOf } from "../markdown.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/text.md prints the output under it", { timeout: 90_000 }, async () => {
  const caller = await callerWith(["enqueue", "read", "operate", "embedded"]);
  const count = await followDocument(document, {
    given: { TOKEN: caller.token },
    copied: (body, { url }) => ({ ID: url.includes("/v1/instances?") ? body.items[0]?.id : undefined }),
  });
  expect(count).toBeGreaterThan(7);
});

it("docs/text.md lists the invalid responses that are requested once more", () => {
  const rows = rowsOf(document, "code").map(([code = "", , repeat = ""]) => [code, repeat.startsWith("once")]);
  const kinds = ["truncated", "malformed", "empty", "refused"] as const;
  expect(rows).toEqual(kinds.map((kind) => [`\`answer_${kind}\``, mayAskAgain(1, kind)]));
});
