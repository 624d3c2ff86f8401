import { expect, it } from "vitest";
import metrics from "../../../docs/metrics.md?raw";
import { callerWith } from "../../api/client.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/metrics.md prints the output under it", { timeout: 90_000 }, async () => {
  const { token } = await callerWith(["observe"]);
  expect(await followDocument(metrics, { given: { TOKEN: token } })).toBe(6);
});
