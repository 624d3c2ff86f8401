import { instances } from "millrace/operate";
import { expect } from "vitest";
import { behave, fresh, operator, probeEnv, reaches, rows, start } from "../harness.ts";

/** A run with a once effect in doubt: its request was sent, and its reply was lost. */
export async function doubtful(name = fresh()) {
  await behave({ subject: `${name}/mail`, mode: "drop", times: 1 });
  const { instanceId } = await start(name, [
    { do: "once", name: "mail", emit: true },
    { do: "commit", name: "after" },
  ]);
  expect(await reaches(instanceId, "in_doubt", "complete", "errored")).toBe("in_doubt");
  const [effect] = (await instances.effects(probeEnv, operator, instanceId)).filter((one) => one.state === "in_doubt");
  return { name, instanceId, key: effect?.key ?? "", effect };
}

/** The rows that follow from the event of the step "mail". */
export function followUps(name: string) {
  return rows("SELECT id FROM probe_rows WHERE name = ?1 AND kind <> 'commit'", name);
}
