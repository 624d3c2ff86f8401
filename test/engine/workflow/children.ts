import { type LabCall, labs } from "../../probe/lab.ts";
import { fresh, rows } from "../harness.ts";
import { held, refuse } from "../lab.ts";

/** Registers the code of a child, and returns the child's name. */
export function labCode(code: (call: LabCall) => Promise<unknown>, name = fresh("lab-child")): string {
  labs.set(name, code);
  return name;
}

/** A child whose step waits while the state is `held`, fails while it is `broken`, and otherwise succeeds. */
export function scripted(first: "held" | "broken" | "fine") {
  const state: { now: "held" | "broken" | "fine" } = { now: first };
  const child = labCode(async ({ step }) => {
    await step.read("held", () => held(() => state.now !== "held"));
    await step.commit("work", () => (state.now === "broken" ? refuse() : {}), { retries: { limit: 0, delay: 10 } });
    await step.read("held again", () => held(() => state.now !== "held"));
    return "repaired";
  });
  return { child, state };
}

export interface ChildRow {
  id: string;
  parent_step: string;
  status: string;
  tenant_id: string;
  correlation_id: string;
  causation_id: string;
  run: number;
  must_end_by: number | null;
}

export const childrenOf = (parent: string) =>
  rows<ChildRow>("SELECT * FROM millrace_instances WHERE parent = ?1 ORDER BY accepted_at, id", parent);

/** The only child of an instance. */
export async function only(parent: string): Promise<ChildRow> {
  const [row, ...others] = await childrenOf(parent);
  if (row === undefined || others.length > 0) throw new Error(`The instance has ${others.length + (row ? 1 : 0)} children.`);
  return row;
}
