import { get } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import type { Plan } from "../../parts/plan.tsx";

/** Actions after which the workflow's code continues. The code then determines which steps follow. */
export const GOES_ON: ReadonlySet<string> = new Set(["retry", "restart", "skip"]);

/**
 * Shows steps that may follow, but that a dry run cannot predict. They are guarded steps that other runs of the workflow executed and this
 * run has not executed.
 */
export function Behind({ workflow, plan: { effects } }: { workflow: string; plan: Plan }) {
  const { data } = useData(
    () => get("/v1/catalog"),
    [],
    () => false,
  );
  const known = new Set(effects.map(({ step }) => step));
  const others = data?.workflows.find(({ name }) => name === workflow)?.steps.filter(({ name }) => !known.has(name)) ?? [];
  if (others.length === 0) return null;
  return (
    <p>
      Steps that other runs of {workflow} also took:{" "}
      {others.map(({ name, class: kind }, index) => (
        <span key={name}>
          {index > 0 && ", "}
          <strong>{name}</strong> <span class="quiet">{kind}</span>
        </span>
      ))}
      .
    </p>
  );
}
