import { expect, it } from "vitest";
import { reaches, rows } from "./harness.ts";
import { restartLab, runLab } from "./lab.ts";

it("W15 a lab run that is restarted is answered from its inbox", async () => {
  const { instanceId } = await runLab(async ({ step }) => {
    await step.commit("first", () => ({}));
    await step.commit("second", () => ({}));
  });
  expect(await reaches(instanceId, "complete")).toBe("complete");
  expect(await restartLab(instanceId)).toBe("complete");
  expect(await rows("SELECT 1 FROM inbox WHERE instance_id = ?1", instanceId)).toHaveLength(2);
});
