import { call } from "millrace";
import { expect, it } from "vitest";
import { outputOf, runLab } from "../lab.ts";

it("a synchronous function is accepted in a read and in a route's call", async () => {
  const { instanceId } = await runLab(async ({ step }) => ({ read: await step.read("count", () => 2) }));
  expect(await outputOf(instanceId)).toEqual({ read: 2 });
  const heard: string[] = [];
  const target = call(({ payload }: { payload: { name: string } }) => heard.push(payload.name));
  expect(await target.handler({ payload: { name: "ada" } } as never)).toBe(1);
});
