import { expect, it } from "vitest";
import schedules from "../../../docs/schedules.md?raw";
import { callerWith } from "../../api/client.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/schedules.md prints the output under it", { timeout: 90_000 }, async () => {
  const { token } = await callerWith();
  expect(await followDocument(schedules, { given: { TOKEN: token } })).toBeGreaterThan(9);
});
