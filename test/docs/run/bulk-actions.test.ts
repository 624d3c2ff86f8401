import { expect, it } from "vitest";
import bulkActions from "../../../docs/bulk-actions.md?raw";
import { callerWith, type Json, until } from "../../api/client.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/bulk-actions.md answers what is written under it", { timeout: 90_000 }, async () => {
  const caller = await callerWith(["enqueue", "read", "operate", "embedded"]);
  // On the platform too: a retry of a run that it has still to end is put off.
  const failed = async () => {
    const { items } = (await caller.get("/v1/instances?status=errored&workflow=publish-article")).body;
    const whole = await Promise.all(items.map(({ id }: Json) => caller.get(`/v1/instances/${id}`)));
    return whole.filter(({ body }) => body.platform_status === "errored").length;
  };
  const commands = await followDocument(bulkActions, {
    given: { TOKEN: caller.token },
    before: ({ text }) => (text.includes("dry_run") ? until(failed, (count) => count === 2) : Promise.resolve()),
    copied: (body, { text }) => (text.includes("Idempotency-Key") ? { BULK: body.id } : {}),
  });
  expect(commands).toBe(12);
});
