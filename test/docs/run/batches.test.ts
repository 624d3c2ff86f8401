import { expect, it } from "vitest";
import batches from "../../../docs/batches.md?raw";
import { callerWith } from "../../api/client.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/batches.md answers what is written under it", { timeout: 60_000 }, async () => {
  const { token } = await callerWith(["enqueue", "read", "operate"], "acme");
  expect(await followDocument(batches, { given: { TOKEN: token } })).toBeGreaterThan(10);
});
