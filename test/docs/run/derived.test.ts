import { expect, it } from "vitest";
import derived from "../../../docs/derived.md?raw";
import { callerWith } from "../../api/client.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/derived.md prints the output under it", { timeout: 90_000 }, async () => {
  const { token } = await callerWith();
  const count = await followDocument(derived, { given: { TOKEN: token }, copied: (body) => ({ HOLD: body?.hold }) });
  expect(count).toBeGreaterThan(15);
});
