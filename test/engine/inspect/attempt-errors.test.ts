import { createExecutionContext } from "cloudflare:test";
import { MillraceError } from "millrace";
import { engineRoutes } from "millrace/http";
import { expect, it } from "vitest";
import { EventReader } from "../../event-source.ts";
import { app } from "../../probe/worker.ts";
import { asking } from "../asking.ts";
import { operator, probeEnv, reaches } from "../harness.ts";
import { runLab } from "../lab.ts";
import { reader } from "./told.ts";

it("the steps and the stream of an instance show the message of an attempt's error, for every error code", async () => {
  let tries = 0;
  const { instanceId } = await runLab(({ step }) =>
    step.read("look", async () => (++tries === 1 ? Promise.reject(new MillraceError("bank_2_away", "The bank is unavailable.")) : 1), {
      retries: { limit: 1, delay: 10 },
    }),
  );
  await reaches(instanceId, "complete");
  const { get } = await asking(["read"], operator.tenantId);
  const failed = { name: "Error", message: "The bank is unavailable." };
  const [look] = (await get(`/v1/instances/${instanceId}/steps`)).body.items;
  expect(look.attempts[0].error).toEqual(failed);
  const { token } = await reader();
  const request = new Request(`http://localhost/v1/instances/${instanceId}/stream`, { headers: { authorization: `Bearer ${token}` } });
  const told = await new EventReader(await engineRoutes(app).fetch(request, probeEnv, createExecutionContext())).all();
  expect(told.find(({ data }) => data.type === "attempt_errored")?.data.error).toEqual(failed);
});
