import { get, type Item, type Result } from "../data/api.ts";

export type Doubt = Pick<Item<"/v1/effects">, "key" | "instance_id" | "step" | "item" | "input" | "answered">;

interface Earlier {
  output?: unknown;
  instance?: string;
}

const LOOKED_AT = "3";

/** Finds a recorded output of an effect's step: in the same instance, or otherwise in an instance that completed recently. */
export async function earlierOutput({ key, instance_id, step }: Doubt): Promise<Result<Earlier>> {
  const answered = async (id: string): Promise<Earlier | undefined> => {
    const effects = await get("/v1/instances/:id/effects", { param: { id } });
    if (!effects.ok) return undefined;
    const one = effects.data.items.findLast(
      (effect) => effect.step === step && effect.key !== key && effect.state === "done" && !effect.skipped && effect.output_ref === null,
    );
    return one && { output: one.output, instance: id };
  };
  const own = await answered(instance_id);
  if (own) return { ok: true, data: own };
  const instance = await get("/v1/instances/:id", { param: { id: instance_id } });
  if (!instance.ok) return instance;
  const { workflow } = instance.data;
  const others = await get("/v1/instances", { query: { workflow, status: "complete", limit: LOOKED_AT } });
  if (!others.ok) return others;
  for (const { id } of others.data.items) {
    const found = await answered(id);
    if (found) return { ok: true, data: found };
  }
  return { ok: true, data: {} };
}
