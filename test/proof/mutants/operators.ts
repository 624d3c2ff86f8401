// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const UNDO = "packages/millrace/src/workflow/undoing.ts";
const BACK = "packages/millrace/src/workflow/undo-effects.ts";
const DOUBTS = "packages/millrace/src/store/inbox/doubts.ts";
const RUN = "packages/millrace/src/store/instances/run.ts";

/** Operators' requests, and their results: undo, retry, unknown outcomes, dead letters. */
export const OPERATORS = mutantsOf("operators", {
  "an undo runs in forward order": {
    file: BACK,
    find: "positionOf(b.effect) - positionOf(a.effect)",
    put: "positionOf(a.effect) - positionOf(b.effect)",
    killedBy: "random",
  },
  "an undone effect still counts as done": {
    file: BACK,
    find: "markUndone(key), nextGeneration(key)]",
    put: "]",
    killedBy: "random",
  },
  "an undo silently omits effects that its code does not reach": {
    file: UNDO,
    find: "if (label !== undefined) throw this.#whyMissed(label, missed !== undefined, passed);",
    put: "",
    // The code of a program reaches all of its effects: this bug requires code that was changed since.
    killedBy: "test/engine/operate/undo.test.ts",
  },
  "an undo undoes an effect with an unknown outcome": {
    file: RUN,
    find: "\n      AND NOT ${hasDoubt(id)}",
    put: "",
    killedBy: "test/engine/operate/undo-refused.test.ts",
  },
  "an effect that an operator confirmed is executed nevertheless": {
    file: DOUBTS,
    find: 'verb === "confirm" ? "confirmed" :',
    put: 'verb === "confirm" ? "failed" :',
    killedBy: "random",
  },
  "an effect that an operator rejected counts as done": {
    file: DOUBTS,
    find: 'verb === "reject" ? "failed" :',
    put: 'verb === "reject" ? "confirmed" :',
    killedBy: "random",
  },
  "a retry repeats a step whose failure other steps depended on": {
    file: "packages/millrace/src/operate/instances/retry.ts",
    // The row and the record each contain the fact: one without the other still refuses.
    find: "const named = force || beginning.failed === instance.error?.step ? null : beginning.failed;",
    put: "const named = null;",
    killedBy: "test/engine/replay/caught.test.ts",
  },
  "a retry repeats a step beside a record that depends on the step's failure": {
    file: RUN,
    find: "updated_at >= ${readAt})`",
    put: "updated_at < ${readAt} AND false)`",
    killedBy: "test/engine/replay/caught.test.ts",
  },
  "a retry starts a run while another one is active": {
    file: RUN,
    find: "AND status IN ${RETRYABLE} AND run < ${run}",
    put: "AND run < ${run}",
    killedBy: "random",
  },
  "a retried run does not get its events again": {
    file: "packages/millrace/src/operate/instances/retry.ts",
    find: "      told: forgetTold(id, actionId),\n",
    put: "",
    // The retried run accepts an event that arrived while it had failed, and that had no receiver.
    killedBy: "test/engine/signals/waits.test.ts",
  },
  "two clicks replay a dead letter twice": {
    file: "packages/millrace/src/store/dead-letters.ts",
    find: "WHERE id = ${id} AND state = 'open'`;",
    put: "WHERE id = ${id}`;",
    killedBy: "test/engine/intake/intake.test.ts",
  },
  "a cancelled run starts its next step": {
    file: "packages/millrace/src/replay/run-state.ts",
    find: 'if (undo !== null || status === "terminated" || isClosed(this.#standing)) return "stopped";',
    put: "",
    killedBy: "test/engine/operate/cancel.test.ts",
  },
  "a paused run starts its next step": {
    file: "packages/millrace/src/replay/run-state.ts",
    find: 'return status === "paused" ? "paused" : "continue";',
    put: 'return "continue";',
    killedBy: "test/engine/operate/pause.test.ts",
  },
  "a run does not check after a wait whether it is paused": {
    file: "packages/millrace/src/replay/inbox.ts",
    find: "    this.run.noteWaited();\n",
    put: "",
    killedBy: "test/engine/operate/pause.test.ts",
  },
  "a failed attempt is repeated although the run is paused": {
    file: "packages/millrace/src/workflow/platform.ts",
    find: "this.#replay.run.decision(number > 1)",
    put: "(number > 1 ? 'continue' : this.#replay.run.decision())",
    killedBy: "test/engine/operate/pause.test.ts",
  },
  "a cancel starts the undo while an effect is running": {
    file: "packages/millrace/src/operate/carry-out/platform-runs.ts",
    find: "(isAtWork(steps, isAlone) || mayBeginStill(steps, at) ||",
    put: "(mayBeginStill(steps, at) ||",
    killedBy: "test/engine/operate/cancel.test.ts",
  },
  "an effect that a cancel interrupted is forgotten": {
    file: "packages/millrace/src/operate/carry-out/carry-out.ts",
    find: "  await keepCutOff(env, action);\n  if (action.undo",
    put: "  if (action.undo",
    killedBy: "test/engine/operate/cancel.test.ts",
  },
  "a retry interrupts a stopped run's running effect": {
    file: "packages/millrace/src/operate/carry-out/carry-out.ts",
    find: "if (!ended && (await",
    put: "if (action.id === '' && (await",
    killedBy: "test/engine/operate/cancel.test.ts",
  },
  "an undo starts while a stopped run's effect is running": {
    file: "packages/millrace/src/operate/carry-out/carry-out.ts",
    find: 'if ((await endRun(env, action)) === "not yet") return "not yet";\n  }\n  if (isToNote',
    put: "  }\n  if (isToNote",
    killedBy: "test/engine/operate/cancel.test.ts",
  },
  "an effect that an action interrupted is forgotten after the next action": {
    file: "packages/millrace/src/store/actions.ts",
    find: "AND a.detail->>'run' <= u.run, json_each(a.cut_off)",
    put: "AND a.detail->>'run' = u.run, json_each(a.cut_off)",
    killedBy: "test/engine/operate/cut-off.test.ts",
  },
  "an operator's action reads only the beginning of a long platform history": {
    file: "packages/millrace/src/inspect/history.ts",
    find: "return historyOf(env, instance, ALL_EVENTS);",
    put: "return historyOf(env, instance);",
    killedBy: "test/engine/operate/cut-off.test.ts",
  },
  "an effect that was in progress at a stop request is forgotten": {
    file: "packages/millrace/src/operate/carry-out/carry-out.ts",
    find: "return stopped === 1 || !ENDED.has(status);",
    put: "return !ENDED.has(status);",
    killedBy: "test/engine/operate/cut-off.test.ts",
  },
  "an undone effect is repeated by the undo's next replay": {
    file: "packages/millrace/src/workflow/undo-effects.ts",
    find: "last.updated_at >= undoneSince",
    put: "last.updated_at < 0",
    killedBy: "test/engine/operate/cut-off.test.ts",
  },
  "an undo repeats an effect that was refused each time": {
    file: "packages/millrace/src/workflow/undoing.ts",
    find: "failure === undefined || !isDefiniteRefusal(failure)",
    put: "true",
    killedBy: "test/engine/operate/undo-refused-later.test.ts",
  },
  "a stopped run that has only interrupted effects cannot be undone": {
    file: "packages/millrace/src/store/instances/run.ts",
    find: "(status = 'terminated' AND EXISTS (",
    put: "(false AND EXISTS (",
    killedBy: "test/engine/operate/undo-stopped.test.ts",
  },
  "an effect that an undo settled counts as still to undo": {
    file: "packages/millrace/src/store/actions.ts",
    find: "back.detail->>'run' >= a.detail->>'run'",
    put: "back.detail->>'run' > a.detail->>'run'",
    killedBy: "test/engine/operate/undo-stopped.test.ts",
  },
  "an effect that a later run settled counts as still to undo": {
    file: "packages/millrace/src/store/inbox/read.ts",
    find: "'failed') = 'failed'`",
    put: "'failed') <> ''`",
    killedBy: "test/engine/operate/undo-stopped.test.ts",
  },
  "a resume starts the undo of a run that was cancelled since": {
    file: "packages/millrace/src/operate/carry-out/carry-out.ts",
    find: ' || action.status === "paused" || action.undo !== null) return',
    put: ' || action.status === "paused") return',
    killedBy: "test/engine/operate/cancel.test.ts",
  },
  "a restarted run does not report that it waits for an operator": {
    file: "packages/millrace/src/operate/carry-out/carry-out.ts",
    find: ", markInDoubt(action.instance_id)]",
    put: "]",
    killedBy: "test/engine/operate/restart.test.ts",
  },
  "a retry uses the first output that an operator entered for a skipped step": {
    file: "packages/millrace/src/operate/instances/retry.ts",
    find: "token IN ('operator', ${SKIPPED}) AND",
    put: "token = 'operator' AND",
    killedBy: "test/engine/operate/skip-step.test.ts",
  },
  "an effect that a restart interrupted is forgotten": {
    file: "packages/millrace/src/operate/carry-out/carry-out.ts",
    find: "  await keepCutOff(env, action);\n  // An attempt",
    put: "  // An attempt",
    killedBy: "test/engine/operate/cut-off.test.ts",
  },
  "a cancelled command that the platform never had is started later": {
    file: "packages/millrace/src/operate/carry-out/carry-out.ts",
    find: 'if (end === "unknown") await existing(env, { ...action, undo: null });\n  if (end !== "ended") return "not yet";',
    put: "",
    killedBy: "test/engine/operate/cancel.test.ts",
  },
  "a skipped step is undone": {
    file: BACK,
    find: " || effect.token === SKIPPED",
    put: "",
    killedBy: "test/engine/operate/skip-step.test.ts",
  },
  "a signal to one instance reaches every instance": {
    file: "packages/millrace/src/store/signals.ts",
    find: '${fragment(sentTo("id"))}, ${JSON.stringify(envelope)}',
    put: "${envelope.subject}, ${JSON.stringify(envelope)}",
    killedBy: "test/engine/operate/signal.test.ts",
  },
  "an instance is closed although an operator has still to decide": {
    file: "packages/millrace/src/store/instances/stop.ts",
    find: "status = 'in_doubt') AND NOT ${hasDoubt(id)}",
    put: "status = 'in_doubt')",
    killedBy: "test/engine/operate/close.test.ts",
  },
  "a cancel without undo undoes effects": {
    file: "packages/millrace/src/operate/instances/stop.ts",
    find: "change: undo ? beginCancel",
    put: "change: undo || run ? beginCancel",
    killedBy: "test/proof/cases.test.ts",
  },
  "a deferred command is started without a check of its row": {
    file: "packages/millrace/src/recorder/proof.ts",
    find: "> ALONE_MS;",
    put: "> ALONE_MS && false;",
    killedBy: "test/engine/operate/cancel.test.ts",
  },
  "a resumed run is not woken": {
    file: "packages/millrace/src/operate/carry-out/carry-out.ts",
    find: "await within(instance.sendEvent({ type: resumeEventType(action.instance_id), payload: {} }));",
    put: "return 'kept';",
    killedBy: "test/engine/operate/pause.test.ts",
  },
  "a restart starts while an effect is running": {
    file: "packages/millrace/src/operate/carry-out/carry-out.ts",
    find: '  const end = await endRun(env, action);\n  if (end === "not yet") return "not yet";',
    put: "  await endRun(env, action);",
    killedBy: "test/engine/operate/restart.test.ts",
  },
  "an instance that is being restarted is restarted once more": {
    file: "packages/millrace/src/store/instances/stop.ts",
    find: "AND undo IS NULL AND run < ${run} AND NOT ${IS_BEING_RESTARTED}`;",
    put: "AND undo IS NULL AND run < ${run}`;",
    killedBy: "test/engine/operate/restart.test.ts",
  },
  "a restart starts an instance before its turn in a lane": {
    file: "packages/millrace/src/operate/instances/stop.ts",
    find: "change: notBegun === null ? beginRestart({ ...next, left }) : null,",
    put: "change: beginRestart({ ...next, left }),",
    killedBy: "test/engine/lanes/turn-stopped.test.ts",
  },
  "a skipped step returns another output than the one that was entered": {
    file: "packages/millrace/src/operate/instances/skip-step.ts",
    find: "packOutput(env.PAYLOADS, path, output)",
    put: "packOutput(env.PAYLOADS, path, step)",
    killedBy: "test/proof/cases.test.ts",
  },
  "a step is skipped although the instance did not fail at it": {
    file: "packages/millrace/src/operate/instances/skip-step.ts",
    find: "if (!failed.includes(label)) return",
    put: "if (failed.length < 0) return",
    killedBy: "test/engine/operate/skip-step.test.ts",
  },
  "a closed instance can be retried": {
    file: "packages/millrace/src/store/instances/stop.ts",
    find: "UPDATE millrace_instances SET status = 'skipped', run = ${run + 1}",
    put: "UPDATE millrace_instances SET status = 'terminated', run = ${run + 1}",
    killedBy: "test/proof/cases.test.ts",
  },
  "a repeated signal counts as another signal": {
    file: "packages/millrace/src/operate/instances/signal.ts",
    find: "checkedKey(type, key));",
    put: "checkedKey(type, key), crypto.randomUUID());",
    killedBy: "test/engine/operate/signal.test.ts",
  },
  "a run that a killed process left is queried, but not woken": {
    file: "packages/millrace/src/operate/carry-out/platform-runs.ts",
    find: "if (attempts > 0 && (await isLocal(env.DB))) await nudge(instance);",
    put: "if (attempts > 9 && (await isLocal(env.DB))) await nudge(instance);",
    killedBy: "test/engine/operate/retry.test.ts",
  },
  "an instance that was closed while running starts the next step": {
    file: "packages/millrace/src/replay/run-state.ts",
    find: " || isClosed(this.#standing)",
    put: "",
    killedBy: "test/engine/operate/close.test.ts",
  },
  "a closed run's running effect reopens it": {
    file: "packages/millrace/src/store/instances/run.ts",
    find: "AND status IN ${AWAKENED.fragment} AND NOT ${IS_CLOSED.fragment}",
    put: "AND status IN ${AWAKENED.fragment}",
    killedBy: "test/engine/operate/close.test.ts",
  },
  "a bulk action answers an unknown outcome that arose after its count": {
    file: "packages/millrace/src/operate/instances/resolve.ts",
    find: "by.bulk ? stoodAtBegin(by.bulk.id) : undefined",
    put: "undefined",
    killedBy: "test/engine/operate/bulk/doubts.test.ts",
  },
});
