import { type EngineEnv, instanceId } from "millrace";
import {
  actOn,
  decideApproval,
  effectsOf,
  getApproval,
  getDeadLetter,
  getInstance,
  listApprovals,
  listDeadLetters,
  listEffects,
  listInstances,
  messagesOf,
  planAct,
  replayDeadLetter,
  resolveDoubt,
  SCOPES,
  skipDeadLetter,
} from "millrace/operate";
import type { Catalog } from "millrace/worker";
import { acceptCommands } from "../../packages/millrace/src/intake/accept/enqueue.ts";
import { operator, type Stage, type Theirs } from "./stage.ts";

/** Calls of the engine's own process, as external callers make them. */
export type Doors = Pick<
  Stage,
  | "idOf"
  | "enqueue"
  | "heard"
  | "retry"
  | "undo"
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
    idOf: async (name) => instanceId(operator.tenantId, "lab", name),
    enqueue(requests) {
      const commands = requests.map(({ payload, key, mustEndBy }) => ({ type: "lab.requested", payload, idempotencyKey: key, mustEndBy }));
      return acceptCommands(env, app, { tenantId: requests[0]?.tenantId ?? operator.tenantId, source: "test" }, commands);
    },
    skip: (letter, reason) => skipDeadLetter(env, app, { ...operator, scopes: SCOPES }, letter, reason),
    heard: (name) => (env.LISTENER.get(env.LISTENER.idFromName(name)) as unknown as { heard(): Promise<number> }).heard(),
    retry: (id, options) => actOn(env, operator, "retry", id, options),
    undo: (id, reason) => actOn(env, operator, "undo", id, { reason }),
    cancel: (id, options) => actOn(env, operator, "cancel", id, options),
    pause: (id, reason) => actOn(env, operator, "pause", id, { reason }),
    resume: (id, reason) => actOn(env, operator, "resume", id, { reason }),
    passAnew: (id, reason) => actOn(env, operator, "restart", id, { reason }),
    skipStep: (id, step) => actOn(env, operator, "skip", id, step),
    close: (id, reason) => actOn(env, operator, "close", id, { reason }),
    signal: (id, { idempotencyKey: key, ...given }) => actOn(env, operator, "signal", id, given, { catalog: app, key }),
    effects: (id) => effectsOf(env, operator, id),
    resolve: (key, resolution, reason) => resolveDoubt(env, operator, key, resolution, reason),
    questions: async (id) => (await listApprovals(env, operator, { instance: id })).items,
    decide: (question, decision, reason) => decideApproval(env, operator, question, decision, reason),
    meddle: (tenantId, theirs) => meddle(env, app, tenantId, theirs),
  };
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
  await attempt("read it", () => getInstance(env, by, run));
  await attempt("list it", () => among([run], listInstances(env, by, {})));
  await attempt("read its effects", () => effectsOf(env, by, run));
  await attempt("read its messages", () => messagesOf(env, by, run));
  await attempt("plan its retry", () => planAct(env, by, "retry", run, {}));
  await attempt("plan its undo", () => planAct(env, by, "undo", run, {}));
  await attempt("retry it", () => actOn(env, by, "retry", run, { reason }));
  await attempt("undo it", () => actOn(env, by, "undo", run, { reason }));
  await attempt("cancel it", () => actOn(env, by, "cancel", run, { reason }));
  await attempt("pause it", () => actOn(env, by, "pause", run, { reason }));
  await attempt("resume it", () => actOn(env, by, "resume", run, { reason }));
  await attempt("restart it", () => actOn(env, by, "restart", run, { reason }));
  await attempt("close it", () => actOn(env, by, "close", run, { reason }));
  await attempt("list its doubts", () =>
    listEffects(env, by, { state: "in_doubt" }).then(({ items }) => items.filter((one) => one.instance_id === run)),
  );
  await attempt("list its questions", () => among(questions, listApprovals(env, by, { instance: run })));
  await attempt("list its letters", () => among(letters, listDeadLetters(env, by, {})));
  for (const id of doubts) await attempt("settle its doubt", () => resolveDoubt(env, by, id, { verb: "retry_anyway" }, reason));
  for (const id of questions) {
    await attempt("read its question", () => getApproval(env, by, id));
    await attempt("answer its question", () => decideApproval(env, by, id, "reject", reason));
  }
  for (const id of letters) {
    await attempt("read its letter", () => getDeadLetter(env, by, id));
    await attempt("skip its letter", () => skipDeadLetter(env, app, by, id, reason));
    await attempt("replay its letter", () => replayDeadLetter(env, app, by, id, { reason }));
  }
  return seen;
}

/** True for a response without content. */
const isNothing = (answer: unknown): boolean => Array.isArray(answer) && answer.length === 0;
