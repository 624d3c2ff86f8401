import {
  type Catalog,
  decideApproval,
  type EngineEnv,
  effectsOf,
  enqueue,
  instanceId,
  listApprovals,
  MillraceError,
  resolveDoubt,
  retryInstance,
  undoInstance,
} from "../../src/engine/index.ts";
import { operator, type Stage } from "./stage.ts";

/** What the engine's own process must do for those outside. */
export type Doors = Pick<Stage, "idOf" | "enqueue" | "heard" | "retry" | "undo" | "effects" | "resolve" | "questions" | "decide">;

interface DoorsEnv extends EngineEnv {
  LISTENER: DurableObjectNamespace;
}

/** The engine's public functions, asked in the name of the operator. */
export function doorsOf(env: DoorsEnv, app: Catalog): Doors {
  return {
    idOf: async (name) => instanceId(operator.tenantId, "lab", name),
    async enqueue(payload) {
      const [answer] = await enqueue(env, app, { tenantId: operator.tenantId, source: "test" }, [{ type: "lab.requested", payload }]);
      if (answer instanceof MillraceError || answer === undefined) throw answer;
      return answer;
    },
    heard: (name) => (env.LISTENER.get(env.LISTENER.idFromName(name)) as unknown as { heard(): Promise<number> }).heard(),
    retry: (id, options) => retryInstance(env, operator, id, options),
    undo: (id, reason) => undoInstance(env, operator, id, reason),
    effects: (id) => effectsOf(env, operator, id),
    resolve: (key, resolution, reason) => resolveDoubt(env, operator, key, resolution, reason),
    questions: async (id) => (await listApprovals(env, operator, { instance: id })).items,
    decide: (question, decision, reason) => decideApproval(env, operator, question, decision, reason),
  };
}
