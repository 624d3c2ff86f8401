// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const ASSIGN = "packages/millrace/src/signals/assign.ts";
const WAIT = "packages/millrace/src/signals/wait.ts";

/** Events and answers that are lost, or received twice. */
export const SIGNALS = mutantsOf("signals", {
  "an event that arrived early is lost": {
    file: "packages/millrace/src/store/waits.ts",
    find: "UPDATE millrace_waits SET signal_id = ${OLDEST_FITTING}",
    put: "UPDATE millrace_waits SET signal_id = NULL",
    killedBy: "random",
  },
  "a wait does not get its event": {
    file: ASSIGN,
    find: "await instance.sendEvent({ type: event_type, payload });",
    put: "void payload;",
    killedBy: "random",
  },
  "one event is consumed by two waits of a run": {
    file: "packages/millrace/src/store/signals.ts",
    find: "\n      AND NOT EXISTS (SELECT 1 FROM millrace_waits taken WHERE taken.instance_id = millrace_waits.instance_id AND taken.signal_id = s.id)",
    put: "",
    killedBy: "test/engine/intake/events.test.ts",
  },
  "in a later replay the timeout wins over an event that the wait already has": {
    file: WAIT,
    find: 'if (typeof row?.envelope === "string") return { event: row.envelope };',
    put: 'if (typeof row?.envelope === "string" && Number(row.left_ms) > 0) return { event: row.envelope };',
    killedBy: "random",
  },
  "a wait that timed out waits again in each replay": {
    file: WAIT,
    find: 'if (typeof row?.over_at === "number") return { over: true };',
    put: "",
    killedBy: "random",
  },
  "a run does not get an operator's answer": {
    file: "packages/millrace/src/operate/carry-out/carry-out.ts",
    find: "if (instance && !ENDED.has(status)) await within(instance.sendEvent({ type, payload }));",
    put: "",
    killedBy: "random",
  },
  "a second answer to a question replaces the first answer": {
    file: "packages/millrace/src/store/approvals.ts",
    find: "AND id = ${id} AND state = 'pending' AND due_at > ${now}",
    put: "AND id = ${id} AND due_at > ${now}",
    killedBy: "test/engine/signals/approve.test.ts",
  },
  "the most recently requested wait accepts a signal instead of the first": {
    file: "packages/millrace/src/store/waits.ts",
    find: "AND open.subject = ${subject} AND open.signal_id IS NULL",
    put: "AND open.subject <> ${subject + '\\u001f'} AND open.signal_id IS NULL",
    killedBy: "test/proof/cases.test.ts",
  },
  "the next wait accepts a stored signal for any subject": {
    file: "packages/millrace/src/store/signals.ts",
    find: " AND s.envelope->>'subject' = millrace_waits.subject",
    put: "",
    killedBy: "test/engine/operate/signal.test.ts",
  },
});
