// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const REFUSED = "packages/millrace/src/store/inbox/claim.ts";
const REFUSED_TEST = "test/engine/operate/skip-refused.test.ts";

/** An operator's decisions about a step that blocks an undo or a run. */
export const SKIPS = mutantsOf("operators", {
  "a step is skipped because the instance failed at it in an earlier run": {
    file: "packages/millrace/src/operate/instances/skip-step.ts",
    find: "await nextRun(call, run,",
    put: "await nextRun({ ...call, next: { ...call.next, run: call.next.run + 1 } }, run,",
    killedBy: "test/engine/operate/skip-step.test.ts",
  },
  "an undo skips a step at which it has not failed": {
    file: "packages/millrace/src/operate/instances/skip-step.ts",
    find: "if (label !== error?.step) {",
    put: "if (label !== error?.step && undo === null) {",
    killedBy: "test/engine/operate/undo-skipped.test.ts",
  },
  "an undo leaves an effect unchanged that is then done twice": {
    file: "packages/millrace/src/operate/instances/skip-step.ts",
    find: 'if (last?.state === "claimed" && DOUBTED.has(last.class)) {',
    put: 'if (last?.state === "claimed" && DOUBTED.has(last.class) && undo === null) {',
    killedBy: "test/engine/operate/undo-left-alone.test.ts",
  },
  "an effect that an undo was to leave unchanged is sent again without a request": {
    file: "packages/millrace/src/store/inbox/outcome.ts",
    find: "repeats = max(millrace_inbox.repeats, millrace_inbox.state = 'claimed'), lease",
    put: "lease",
    killedBy: "test/engine/operate/undo-left-alone.test.ts",
  },
  "an effect that an undo is to leave unchanged is repeated": {
    file: "packages/millrace/src/workflow/undo-effects.ts",
    find: 'return state === "failed" && token === "operator";',
    put: 'return state === "failed" && token === "operator" && arguments[0].epoch === 1;',
    killedBy: "test/engine/operate/undo-left-alone.test.ts",
  },
  "a possible effect counts as not done once an operator's output is refused": {
    file: REFUSED,
    find: "state = ${STATE_BEFORE}, ",
    put: "",
    killedBy: REFUSED_TEST,
  },
  "an operator's refused output remains stored": {
    file: "packages/millrace/src/guard/skipped.ts",
    find: "  await replay.recorder.refuseSkip({ key, epoch, run: await replay.run.number() });\n",
    put: "",
    killedBy: REFUSED_TEST,
  },
  "a refused output creates an entry that did not exist": {
    file: REFUSED,
    find: "AND skipped_over = '{}'",
    put: "AND skipped_over = '[]'",
    killedBy: REFUSED_TEST,
  },
  "the known state of an effect is forgotten at the second refused output": {
    file: "packages/millrace/src/store/inbox/outcome.ts",
    find: "iif(millrace_inbox.token = excluded.token, millrace_inbox.skipped_over, json_object(",
    put: "iif(millrace_inbox.token = excluded.token, '{}', json_object(",
    killedBy: REFUSED_TEST,
  },
  "a replay that hangs refuses an output that was entered since": {
    file: REFUSED,
    find: "AND millrace_instances.run = ${run})",
    put: "AND millrace_instances.run >= ${run})",
    killedBy: REFUSED_TEST,
  },
  "a possible effect counts as not done when its row has lost the state before the skip": {
    file: REFUSED,
    find: "iif(class IN ${CLAIMED.fragment}, 'claimed', 'failed')",
    put: "'failed'",
    killedBy: REFUSED_TEST,
  },
  "rows that cannot be written with an operator's output are ignored": {
    file: "packages/millrace/src/guard/skipped.ts",
    find: "if (!saysOfWrites(error)) throw error;",
    put: "if (saysOfWrites(error)) throw error;",
    killedBy: REFUSED_TEST,
  },
  "an undo treats a refused output as the upstream's refusal": {
    file: "packages/millrace/src/guard/skipped.ts",
    find: 'throw new MillraceError("invalid_payload", said, { unclear: false });',
    put: 'throw new MillraceError("not_retryable", said);',
    killedBy: "test/engine/operate/undo-skip-refused.test.ts",
  },
  "an error suggests to enter an output when there is no record": {
    file: "packages/millrace/src/replay/failure.ts",
    find: '(state === "failed" && stepOrder.hasSettled(labelOf(step, item), false))',
    put: 'state === "failed"',
    killedBy: REFUSED_TEST,
  },
  "a commit whose undo is skipped still counts as done": {
    file: "packages/millrace/src/workflow/undo-effects.ts",
    find: "skipped: () => ({ statements: superseded() })",
    put: "skipped: () => ({})",
    killedBy: "test/engine/operate/undo-skipped.test.ts",
  },
  "an undo's step is skipped at the generation of the previous undo": {
    file: "packages/millrace/src/operate/instances/skip-step.ts",
    find: "(isOver ? 1 : 0)",
    put: "(isOver ? 0 : 0)",
    killedBy: "test/engine/operate/undo-skipped.test.ts",
  },
  "a skipped step of an undo counts as a step of the code": {
    file: "packages/millrace/src/store/inbox/outcome.ts",
    find: "${takesBack ? positionBack(takesBack) : nextPosition(instanceId)}",
    put: "${takesBack ? nextPosition(instanceId) : nextPosition(instanceId)}",
    killedBy: "test/engine/operate/undo-skipped.test.ts",
  },
  "a dry run reports an undone effect as not happened": {
    file: "packages/millrace/src/operate/instances/undo.ts",
    find: "undo === null ? withFree : await effectsOf(env, by, id)",
    put: "undo === null ? withFree : withFree",
    killedBy: "test/engine/operate/undo-skipped.test.ts",
  },
});
