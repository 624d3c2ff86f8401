import { get } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import type { Plan } from "../../parts/plan.tsx";

/** Acts behind which the code goes on: with which steps, only it decides. */
export const GOES_ON: ReadonlySet<string> = new Set(["retry", "restart", "skip"]);

/** What a dry run cannot foresee, as far as it was seen: guarded steps that other runs of the workflow have taken, and this one has not. */
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
