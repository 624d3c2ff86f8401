import { describe, expect, it } from "vitest";
import { fresh, happened, reaches, rows, start } from "../harness.ts";

describe("A guarded run", () => {
  it("a run with a step of each class executes each effect once and completes", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [
      { do: "read", name: "look" },
      { do: "keyed", name: "charge" },
      { do: "lookup", name: "ship" },
      { do: "once", name: "mail" },
      { do: "natural", name: "put" },
      { do: "commit", name: "note", emit: true },
    ]);
    expect(await reaches(instanceId, "complete", "errored")).toBe("complete");
    for (const step of ["charge", "ship", "mail", "put"]) expect(await happened(`${name}/${step}`)).toHaveLength(1);
    expect(await rows("SELECT step, state, epoch FROM millrace_inbox WHERE instance_id = ?1 ORDER BY position", instanceId)).toEqual([
      { step: "charge", state: "done", epoch: 1 },
      { step: "ship", state: "done", epoch: 1 },
      { step: "mail", state: "done", epoch: 1 },
      { step: "put", state: "done", epoch: 1 },
      { step: "note", state: "done", epoch: 1 },
    ]);
  });
});
