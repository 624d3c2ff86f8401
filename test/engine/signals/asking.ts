import { approvals } from "millrace/operate";
import type { ApprovalRow } from "../../../packages/millrace/src/inspect/approvals.ts";
import { fresh, operator, probeEnv, probeOutput, rows, start, until } from "../harness.ts";

export const LONG = { timeoutMs: 3_600_000 };
export const stranger = { tenantId: "globex", actor: "gus" };

/** Waits until an instance has this number of questions, and returns them. */
export async function questions(instanceId: string, count = 1): Promise<ApprovalRow[]> {
  const asked = () => approvals.list(probeEnv, operator, { instance: instanceId });
  return (await until(asked, ({ items }) => items.length >= count)).items;
}

/** A run that asks a question, and sends a request after any answer. */
export async function asking(name = fresh(), how: { timeoutMs: number; otherwise?: "approve" | "reject" } = LONG) {
  const { instanceId } = await start(name, [
    { do: "commit", name: "before" },
    { do: "approve", name: "ask", ...how },
    { do: "keyed", name: "act" },
  ]);
  const [question] = await questions(instanceId);
  return { name, instanceId, id: question?.id ?? "", question };
}

export async function outputs(instanceId: string): Promise<unknown[]> {
  return ((await probeOutput(instanceId)) as { outputs: unknown[] }).outputs;
}

export const audited = (instanceId: string) =>
  rows("SELECT actor, verb, reason, result FROM millrace_actions WHERE instance_id = ?1 ORDER BY result", instanceId);
