import { type EngineEnv, ids } from "millrace";
import { approvals, deadLetters, effects, instances, SCOPES } from "millrace/operate";
import { type Catalog, cellOf } from "millrace/worker";
import { workflowBinding } from "../../packages/millrace/src/contract/bindings.ts";
import { acceptCommands } from "../../packages/millrace/src/intake/accept/enqueue.ts";
import { commandOf, workflowOf } from "./flow.ts";
import { operator, type Stage, type Theirs } from "./stage.ts";

/** Calls of the engine's own process, as external callers make them. */
export type Doors = Pick<
  Stage,
  | "idOf"
  | "enqueue"
  | "heard"
  | "retry"
  | "undo"
  | "release"
  | "cancel"
  | "pause"
  | "resume"
  | "passAnew"
  | "skipStep"
  | "close"
  | "signal"
  | "effects"
  | "resolve"
  | "questions"
  | "decide"
  | "skip"
  | "meddle"
>;

interface DoorsEnv extends EngineEnv {
  LISTENER: DurableObjectNamespace;
}

/** The engine's public functions, called in the name of the operator. */
export function doorsOf(env: DoorsEnv, app: Catalog): Doors {
  return {
    idOf: async (name) => ids.instance(operator.tenantId, workflowOf(name), name),
    async enqueue(requests) {
      const [{ tenantId = operator.tenantId } = {}] = requests;
      const commands = requests.map(({ payload, key, mustEndBy }) => ({
        type: commandOf(String(payload.name)),
        payload,
        idempotencyKey: key,
        mustEndBy,
      }));
      return acceptCommands(await cellOf(env, tenantId), app, { tenantId, source: "test" }, commands);
    },
    skip: (letter, reason) => deadLetters.skip(env, app, { ...operator, scopes: SCOPES }, letter, reason),
    heard: (name) => (env.LISTENER.get(env.LISTENER.idFromName(name)) as unknown as { heard(): Promise<number> }).heard(),
    retry: (id, options) => instances.act(env, operator, "retry", id, options),
    release: (id, reason) => instances.act(env, operator, "release", id, { reason }),
    undo: (id, reason) => instances.act(env, operator, "undo", id, { reason }),
    cancel: (id, options) => instances.act(env, operator, "cancel", id, options),
    pause: (id, reason) => instances.act(env, operator, "pause", id, { reason }),
    resume: (id, reason) => instances.act(env, operator, "resume", id, { reason }),
    passAnew: (id, reason) => instances.act(env, operator, "restart", id, { reason }),
    skipStep: (id, step) => instances.act(env, operator, "skip", id, step),
    close: (id, reason) => instances.act(env, operator, "close", id, { reason }),
    signal: (id, { idempotencyKey: key, ...given }) => instances.act(env, operator, "signal", id, given, { catalog: app, key }),
    effects: (id) => instances.effects(env, operator, id),
    resolve: (key, resolution, reason) => effects.resolve(env, operator, key, resolution, reason),
    questions: async (id) => (await approvals.list(env, operator, { instance: id })).items,
    decide: (question, decision, reason) => approvals.decide(env, operator, question, decision, reason),
    meddle: (tenantId, theirs) => meddle(env, app, tenantId, theirs),
  };
}

/** The platform's binding of the workflow that a run belongs to. */
export async function bindingOf(env: EngineEnv, id: string): Promise<Workflow> {
  const row = await env.DB.prepare("SELECT workflow FROM millrace_instances WHERE id = ?1").bind(id).first<{ workflow: string }>();
  return workflowBinding(env, row?.workflow ?? "lab");
}

/** T01, I12: another tenant's caller sees nothing of a run, and changes nothing of it. Returns the violations. */
async function meddle(env: EngineEnv, app: Catalog, tenantId: string, { run, letters, questions, doubts }: Theirs): Promise<string[]> {
  const by = { tenantId, actor: "mallory", scopes: SCOPES };
  const reason = "none of my business";
  const seen: string[] = [];
  const attempt = (what: string, ask: () => Promise<unknown>) =>
    ask().then(
      (answer) => void (isNothing(answer) || seen.push(`another tenant could ${what}: ${JSON.stringify(answer).slice(0, 200)}`)),
      () => undefined,
    );
  const among = (ids: readonly string[], page: Promise<{ items: readonly { id: string }[] }>) =>
    page.then(({ items }) => items.filter(({ id }) => ids.includes(id)));
  await attempt("read it", () => instances.get(env, by, run));
  await attempt("list it", () => among([run], instances.list(env, by, {})));
  await attempt("read its effects", () => instances.effects(env, by, run));
  await attempt("read its messages", () => instances.messages(env, by, run));
  await attempt("plan its retry", () => instances.plan(env, by, "retry", run, {}));
  await attempt("plan its undo", () => instances.plan(env, by, "undo", run, {}));
  await attempt("retry it", () => instances.act(env, by, "retry", run, { reason }));
  await attempt("undo it", () => instances.act(env, by, "undo", run, { reason }));
  await attempt("cancel it", () => instances.act(env, by, "cancel", run, { reason }));
  await attempt("pause it", () => instances.act(env, by, "pause", run, { reason }));
  await attempt("resume it", () => instances.act(env, by, "resume", run, { reason }));
  await attempt("restart it", () => instances.act(env, by, "restart", run, { reason }));
  await attempt("close it", () => instances.act(env, by, "close", run, { reason }));
  await attempt("list its doubts", () =>
    effects.list(env, by, { state: "in_doubt" }).then(({ items }) => items.filter((one) => one.instance_id === run)),
  );
  await attempt("list its questions", () => among(questions, approvals.list(env, by, { instance: run })));
  await attempt("list its letters", () => among(letters, deadLetters.list(env, by, {})));
  for (const id of doubts) await attempt("settle its doubt", () => effects.resolve(env, by, id, { verb: "retry_anyway" }, reason));
  for (const id of questions) {
    await attempt("read its question", () => approvals.get(env, by, id));
    await attempt("answer its question", () => approvals.decide(env, by, id, "reject", reason));
  }
  for (const id of letters) {
    await attempt("read its letter", () => deadLetters.get(env, by, id));
    await attempt("skip its letter", () => deadLetters.skip(env, app, by, id, reason));
    await attempt("replay its letter", () => deadLetters.replay(env, app, by, id, { reason }));
  }
  return seen;
}

/** True for a response without content. */
const isNothing = (answer: unknown): boolean => Array.isArray(answer) && answer.length === 0;
