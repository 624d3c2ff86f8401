import { expect, it } from "vitest";
import bulkActions from "../../../docs/bulk-actions.md?raw";
import { callerWith, type Json, until } from "../../api/client.ts";
import { seedEffect, seedInstance } from "../../api/seed.ts";
import { followDocument } from "./follow.ts";

const TENANT = "acme";

it("every command of docs/bulk-actions.md prints the output under it", { timeout: 90_000 }, async () => {
  const caller = await callerWith(["enqueue", "read", "operate", "embedded"], TENANT);
  for (const step of ["send mail", "send mail", "send parcel"])
    await seedEffect(await seedInstance(TENANT, { status: "in_doubt" }), { step });
  // The platform, too, must have ended the run: a retry of a run that it has not ended is deferred.
  const failed = async () => {
    const { items } = (await caller.get("/v1/instances?status=errored&workflow=publish-article")).body;
    const whole = await Promise.all(items.map(({ id }: Json) => caller.get(`/v1/instances/${id}`)));
    return whole.filter(({ body }) => body.platform_status === "errored").length;
  };
  const commands = await followDocument(bulkActions, {
    given: { TOKEN: caller.token },
    before: ({ text }) => (text.includes("retry") && text.includes("dry_run") ? until(failed, (count) => count === 2) : Promise.resolve()),
    copied: (body, { text }) => (text.includes("Idempotency-Key") ? { BULK: body.id } : {}),
  });
  expect(commands).toBe(13);
});
