import {
  type Catalog,
  decideApproval,
  type EngineEnv,
  effectsOf,
  enqueue,
  instanceId,
  listApprovals,
  resolveDoubt,
  retryInstance,
  skipDeadLetter,
  undoInstance,
} from "../../src/engine/index.ts";
import { operator, type Stage } from "./stage.ts";

/** What the engine's own process must do for those outside. */
export type Doors = Pick<
  Stage,
  "idOf" | "enqueue" | "heard" | "retry" | "undo" | "effects" | "resolve" | "questions" | "decide" | "skip" | "trespass"
>;

interface DoorsEnv extends EngineEnv {
  LISTENER: DurableObjectNamespace;
}

/** The engine's public functions, asked in the name of the operator. */
export function doorsOf(env: DoorsEnv, app: Catalog): Doors {
  return {
    idOf: async (name) => instanceId(operator.tenantId, "lab", name),
    enqueue(requests) {
      const commands = requests.map(({ payload, key }) => ({ type: "lab.requested", payload, idempotencyKey: key }));
      return enqueue(env, app, { tenantId: requests[0]?.tenantId ?? operator.tenantId, source: "test" }, commands);
    },
    skip: (letter, reason) => skipDeadLetter(env, app, { ...operator, seesUnattributed: true }, letter, reason),
    heard: (name) => (env.LISTENER.get(env.LISTENER.idFromName(name)) as unknown as { heard(): Promise<number> }).heard(),
    retry: (id, options) => retryInstance(env, operator, id, options),
    undo: (id, reason) => undoInstance(env, operator, id, reason),
    effects: (id) => effectsOf(env, operator, id),
    resolve: (key, resolution, reason) => resolveDoubt(env, operator, key, resolution, reason),
    questions: async (id) => (await listApprovals(env, operator, { instance: id })).items,
    decide: (question, decision, reason) => decideApproval(env, operator, question, decision, reason),
    async trespass(id) {
      const by = { tenantId: "globex", actor: "eve" };
      const [effects, { items }] = await Promise.all([effectsOf(env, operator, id), listApprovals(env, operator, { instance: id })]);
      const tries: Record<string, () => Promise<unknown>> = {
        effects: async () => (await effectsOf(env, by, id)).length > 0,
        questions: async () => (await listApprovals(env, by, { instance: id })).items.length > 0,
        ...Object.fromEntries(
          effects.map(({ key }) => [`an answer to ${key}`, () => resolveDoubt(env, by, key, { verb: "reject" }, "mine")]),
        ),
        ...Object.fromEntries(items.map((one) => [`a say in ${one.id}`, () => decideApproval(env, by, one.id, "reject", "mine")])),
        "a retry": () => retryInstance(env, by, id, { reason: "mine" }),
        "an undo": () => undoInstance(env, by, id, "mine"),
      };
      const given = await Promise.all(Object.entries(tries).map(async ([what, ask]) => ((await ask().catch(() => false)) ? [what] : [])));
      return given.flat();
    },
  };
}
