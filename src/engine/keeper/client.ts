import type { EngineEnv } from "../contract/bindings.ts";
import type { Keeper } from "./keeper.ts";

const armed = new WeakSet<object>();

/** The one keeper. */
export function keeperOf(env: EngineEnv): DurableObjectStub<Keeper> {
  return env.KEEPER.get(env.KEEPER.idFromName("keeper")) as unknown as DurableObjectStub<Keeper>;
}

/** Makes sure the keeper's clock runs: asked once per isolate, in the background of whatever woke it. */
export function armKeeper(env: EngineEnv, ctx: Pick<ExecutionContext, "waitUntil">): void {
  if (armed.has(env.KEEPER)) return;
  armed.add(env.KEEPER);
  ctx.waitUntil(
    keeperOf(env)
      .arm()
      .catch(() => armed.delete(env.KEEPER)),
  );
}
