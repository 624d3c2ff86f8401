import { instances } from "millrace/operate";
import { expect, it } from "vitest";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { app } from "../../probe/worker.ts";
import { fresh, operator, probeEnv, reaches } from "../harness.ts";

it("the example of docs/children.md publishes each page of a site by a child", async () => {
  const site = fresh("site");
  const request = { type: "publish-site", payload: { site, pages: ["home", "about"] } };
  const [accepted] = await acceptCommands(probeEnv, app, { tenantId: "acme", source: "test" }, [request]);
  const id = (accepted as { instanceId: string }).instanceId;
  expect(await reaches(id, "complete", "errored")).toBe("complete");
  const { result } = await instances.describe(probeEnv, operator, id);
  expect(result).toEqual(["https://pages.example.com/home", "https://pages.example.com/about"]);
  const { items } = await instances.list(probeEnv, operator, { parent: id, limit: 10 });
  expect(items.map(({ workflow, parent }) => ({ workflow, parent }))).toEqual([
    { workflow: "publish-page", parent: { id, step: expect.stringContaining("page [") } },
    { workflow: "publish-page", parent: { id, step: expect.stringContaining("page [") } },
  ]);
});
