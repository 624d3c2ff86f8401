import { expect, it } from "vitest";
import { asking } from "../asking.ts";
import { doubtful } from "../guard/doubtful.ts";
import { operator, reaches } from "../harness.ts";

it("an instance in doubt says which step is, since when and where that is answered; its steps say it of that step, until it is", async () => {
  const { get, post } = await asking(["read", "operate"], operator.tenantId);
  const { instanceId, key } = await doubtful();
  const at = `/v1/effects/${key}`;
  const doubts = [{ step: "mail", effect: key, since: expect.any(String), why: expect.any(String) }];
  const answers = { confirm: `${at}/confirm`, reject: `${at}/reject`, retry: `${at}/retry` };
  expect((await get(`/v1/instances/${instanceId}`)).body).toMatchObject({ status: "in_doubt", doubts: [{ ...doubts[0], ...answers }] });
  const steps = async () => (await get(`/v1/instances/${instanceId}/steps`)).body.items;
  expect(await steps()).toMatchObject([
    { type: "do", name: "mail", state: "in_doubt", ended_at: null },
    { type: "waitForEvent", name: "mail · in doubt 1", state: "waiting", event_type: null },
  ]);
  expect((await post(answers.confirm, { output: "sent", reason: "It is in their inbox." })).status).toBe(202);
  expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
  expect((await get(`/v1/instances/${instanceId}`)).body).toMatchObject({ status: "complete", doubts: [] });
  expect(await steps()).toMatchObject([{ name: "mail", state: "complete" }, {}, {}, { name: "after" }]);
});
