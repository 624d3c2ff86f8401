import { instances } from "millrace/operate";
import { expect, it, onTestFinished } from "vitest";
import { mode } from "../../probe/mode.ts";
import { asking as caller } from "../asking.ts";
import { operator, probeEnv, reaches } from "../harness.ts";
import { kept } from "../operate/scene.ts";
import { asking } from "./asking.ts";

it.each(["platform", "inline"] as const)(
  "a question of a cancelled run is shown as over, and a refused answer names the run's status (step mode %s)",
  async (steps) => {
    mode.steps = steps;
    onTestFinished(() => {
      mode.steps = "platform";
    });
    const { get, post } = await caller(["read", "operate"], operator.tenantId);
    const { instanceId, id } = await asking();
    const at = `/v1/approvals/${id}`;
    const listed = async (query: string) => (await get(`/v1/approvals?instance=${instanceId}${query}`)).body.items;
    await reaches(instanceId, "waiting");
    expect(await listed("")).toMatchObject([{ id, state: "pending", ended_as: null }]);
    await instances.act(probeEnv, operator, "cancel", instanceId, { reason: "called off" });
    expect(await kept(instanceId, "terminated", "errored")).toBe("terminated");
    expect(await listed("")).toMatchObject([{ id, state: "pending", ended_as: "terminated" }]);
    expect(await listed("&state=pending")).toEqual([]);
    expect((await get(at)).body).toMatchObject({ state: "pending", ended_as: "terminated" });
    expect((await get(`/v1/search?q=${id}`)).body.items).toContainEqual(expect.objectContaining({ kind: "approval", status: "ended" }));
    const { status, body } = await post(`${at}/approve`, { reason: "it is right" });
    expect([status, body]).toMatchObject([
      409,
      { code: "invalid_transition", from: "terminated", detail: expect.stringContaining("its instance is terminated") },
    ]);
  },
);
