import { expect, it } from "vitest";
import batches from "../../../docs/batches.md?raw";
import { callerWith } from "../../api/client.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/batches.md prints the output under it", { timeout: 90_000 }, async () => {
  const { token, tenantId } = await callerWith(["enqueue", "read", "operate"]);
  // The document's tenant is `acme`.
  const own = batches.replaceAll("files/acme/", `files/${tenantId}/`);
  expect(own).not.toBe(batches);
  expect(await followDocument(own, { given: { TOKEN: token } })).toBeGreaterThan(10);
});
