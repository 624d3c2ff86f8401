import { call } from "millrace";
import { expect, it } from "vitest";
import { LAB, platformReaches, runLab } from "../lab.ts";

it("a read, and the call of a route, may be of a function that answers at once, without a promise", async () => {
  const { instanceId } = await runLab(async ({ step }) => ({ read: await step.read("count", () => 2) }));
  expect(await platformReaches(instanceId, "complete")).toBe("complete");
  expect((await (await LAB.get(instanceId)).status()).output).toEqual({ read: 2 });
  const heard: string[] = [];
  const target = call(({ payload }: { payload: { name: string } }) => heard.push(payload.name));
  expect(await target.handler({ payload: { name: "ada" } } as never)).toBe(1);
});
