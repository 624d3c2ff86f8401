import { expect, it } from "vitest";
import authoring from "../../../docs/authoring.md?raw";
import { callerWith } from "../../api/client.ts";
import { followDocument } from "../../docs/run/follow.ts";

it("the waiting instance of docs/authoring.md continues as the page says", async () => {
  const { token } = await callerWith();
  expect(await followDocument(authoring, { given: { TOKEN: token }, copied: (body) => ({ ID: body?.instance_id }) })).toBe(4);
});
