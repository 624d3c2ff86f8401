import { expect, it } from "vitest";
import cost from "../../../docs/cost.md?raw";
import { callerWith } from "../../api/client.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/cost.md prints the output under it", async () => {
  const { token } = await callerWith(["observe"]);
  expect(await followDocument(cost, { given: { TOKEN: token } })).toBe(1);
});
