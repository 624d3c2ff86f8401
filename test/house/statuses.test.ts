import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { RowStatement, Statement } from "../../packages/millrace/src/contract/sql.ts";
import { RECORDED_CLASSES } from "../../packages/millrace/src/store/inbox/classes.ts";
import * as accept from "../../packages/millrace/src/store/instances/accept.ts";
import * as children from "../../packages/millrace/src/store/instances/children.ts";
import * as look from "../../packages/millrace/src/store/instances/look.ts";
import * as remove from "../../packages/millrace/src/store/instances/remove.ts";
import * as run from "../../packages/millrace/src/store/instances/run.ts";
import {
  FAILED,
  GOING_ON,
  INSTANCE_STATUSES,
  IS_INDEXED_AS_IN_TURN,
  IS_INDEXED_AS_OVER,
  IS_INDEXED_AS_STOPPED,
  IS_INDEXED_AS_UNDER_WAY,
  OVER,
  SETTLED,
} from "../../packages/millrace/src/store/instances/status.ts";
import * as stop from "../../packages/millrace/src/store/instances/stop.ts";
import * as wait from "../../packages/millrace/src/store/instances/wait.ts";
import { openMigrated } from "../migrations.ts";
import { sources } from "./sources.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const STORE = join(ROOT, "packages/millrace/src/store");

const db = openMigrated();
afterAll(() => db.close());

const ID = "0123456789abcdef0123456789abcdef";
const PARENT = "f".repeat(32);
const FINGERPRINT = "f".repeat(64);
const [TENANT, ACTION, SIGNAL, LETTER, STEP] = ["acme", "action", "signal", "letter", "step"] as const;
const envelope = {
  tenant_id: TENANT,
  message_type: "test.command",
  idempotency_key: "key",
  correlation_id: "job",
  causation_id: "cause",
  subject: "subject",
};
const command = {
  id: ID,
  fingerprint: FINGERPRINT,
  workflow: "test",
  version: 1,
  envelope: envelope as never,
  queue: "test",
  delaySeconds: 0,
};
const next = { id: ID, tenantId: TENANT, run: 2, left: "{}" };

/** The further rows that a transition requires, in SQL. */
const GIVEN = {
  applied: `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, reason, result, at) VALUES ('${ACTION}', '${TENANT}', 'ada', 'replay', 't', '', 'applied', 1)`,
  failed: `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, reason, result, at, applied_at) VALUES ('${ACTION}', '${TENANT}', 'ada', 'retry', 't', '', 'failed', 1, 1)`,
  debounced: `UPDATE millrace_instances SET due_at = 9000000000000, flow = '{"debounce":"key"}' WHERE id = '${ID}'; INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope, status, accepted_at, updated_at, flow) VALUES ('${PARENT}', '${TENANT}', 't', 't', 'k', 'j', 'c', 's', 'f', '{}', 'accepted', 1, 1, '{"debounce":"key","ms":1}')`,
  letter: `INSERT INTO millrace_dead_letters (id, queue, body, reason, attempts, first_at, captured_at) VALUES ('${LETTER}', 'test', '{}', 'r', 1, 1, 1)`,
  doubt: `INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, updated_at) VALUES ('${ID}', 'doubtful', 1, 'once', 'in_doubt', 1, 't', 1)`,
  done: `INSERT INTO millrace_inbox (instance_id, step, position, class, state, epoch, token, undoable, updated_at) VALUES ('${ID}', '${STEP}', 1, 'once', 'done', 1, 't', 1, 1)`,
  wait: `INSERT INTO millrace_waits (instance_id, name, workflow, tenant_id, type, subject, event_type, since_at) VALUES ('${ID}', '${STEP}', 'w', '${TENANT}', 'e', 's', 't', 1)`,
  child: `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, instance_id, reason, detail, result, at) VALUES ('child', '${TENANT}', 'ada', 'cancel', 't', '${ID}', '', '{"derived_from":"${ACTION}"}', 'applied', 1)`,
  question: `INSERT INTO millrace_approvals (instance_id, step, id, tenant_id, workflow, question, otherwise, due_at, asked_at) VALUES ('${ID}', '${STEP}', '${ID}-1', '${TENANT}', 'w', '?', 'reject', 1, 1)`,
};

interface Trial {
  given?: readonly (keyof typeof GIVEN)[];
  /** The transition's statement, or several if it depends on the arguments. */
  statements: readonly (Statement | RowStatement)[];
}

/**
 * Every statement that writes `instances`, by the name of its function, for the case in which it applies; after a name, the condition that
 * decides the result for a row.
 */
const TRIALS: Record<string, Trial> = {
  insertAccepted: { statements: [accept.insertAccepted(JSON.stringify([command]))] },
  takeIn: { statements: [accept.takeIn(JSON.stringify([command]))] },
  markStarted: { statements: [accept.markStarted([ID])] },
  markDead: { given: ["letter"], statements: [accept.markDead([{ id: ID, fingerprint: FINGERPRINT, letter: LETTER }])] },
  acceptAgain: { given: ["applied"], statements: [accept.acceptAgain(command, null, ACTION)] },
  skipInstance: { given: ["applied"], statements: [accept.skipInstance(ID, FINGERPRINT, ACTION)] },
  markRunning: { statements: [run.markRunning(ID)] },
  markAwake: { statements: [run.markAwake(ID)] },
  revive: { statements: [run.revive({ id: ID, run: 1 })] },
  finishInstance: {
    statements: [
      run.finishInstance({ id: ID, run: 1, status: "complete", error: null }),
      run.finishInstance({ id: ID, run: 1, status: "errored", error: "{}" }),
      run.finishInstance({ id: ID, run: 1, status: "terminated", error: null }),
    ],
  },
  beginRetry: { statements: [run.beginRetry({ ...next, isAnew: false, readAt: null })] },
  beginUndo: { given: ["done"], statements: [run.beginUndo(next, ACTION)] },
  beginCancel: { statements: [stop.beginCancel(next, ACTION)] },
  markStopped: { statements: [stop.markStopped(next)] },
  jumpQueue: { statements: [true, false].map((toFront) => accept.jumpQueue({ id: ID, tenantId: TENANT }, toFront)) },
  askForStart: { given: ["debounced"], statements: [accept.askForStart([PARENT])] },
  markPaused: { statements: [stop.markPaused(next)] },
  markResumed: { statements: [stop.markResumed(next)] },
  "markResumed after a step": { given: ["done"], statements: [stop.markResumed(next)] },
  "markResumed during a wait": { given: ["wait"], statements: [stop.markResumed(next)] },
  beginRestart: { statements: [stop.beginRestart(next)] },
  markRestarted: { statements: [stop.markRestarted(ID, 1)] },
  markClosed: { statements: [stop.markClosed({ ...next, run: 1 })] },
  giveUpRuns: { given: ["failed"], statements: [run.giveUpRuns([{ id: ACTION, instance: ID, run: 1, failure: {}, cause: "c" }])] },
  waitForEvent: { given: ["wait"], statements: [wait.waitForEvent(ID, STEP, 1)] },
  markWaiting: { statements: [wait.markWaiting(ID)] },
  insertChild: { statements: [children.insertChild({ ...command, parent: PARENT, step: STEP, by: "test" })] },
  cancelChildren: {
    given: ["child"],
    statements: [true, false].map((undo) => children.cancelChildren({ id: PARENT, tenantId: TENANT }, ACTION, undo)),
  },
  waitForAnswer: { given: ["question"], statements: [wait.waitForAnswer(TENANT, ID, 1)] },
  markAnswered: { statements: [wait.markAnswered(TENANT, ID)] },
  markInDoubt: { given: ["doubt"], statements: [wait.markInDoubt(ID)] },
  markDoubted: { given: ["doubt"], statements: [wait.markDoubted({ instanceId: ID, step: "doubtful", item: "", generation: 1 })] },
  markResolved: { statements: [wait.markResolved(ID)] },
  resumeResolved: { statements: [wait.resumeResolved(ID)] },
  noteLooked: { statements: [look.noteLooked([{ id: ID, check_at: 1, pauseMs: 1, seen: true, hibernates: true }])] },
  lookForVersion: { statements: [look.lookForVersion(ID, 1)] },
  watchAgain: { statements: [look.watchAgain([ID])] },
  lookAfterAnswer: { statements: [look.lookAfterAnswer(TENANT, ID)] },
  lookAfterEvents: { statements: [look.lookAfterEvents([SIGNAL])] },
  removeOver: {
    statements: [remove.removeOver([ID], { statuses: SETTLED, keepMs: 1 }), remove.removeOver([ID], { statuses: FAILED, keepMs: 1 })],
  },
  terminateInstances: { statements: [remove.terminateInstances([ID], TENANT, "another")] },
  touchInstance: { statements: [remove.touchInstance(ID, TENANT)] },
};

/** The other exports of those files: conditions and reads; and the deletion of a tenant, which removes its instances in any status. */
const NO_TRANSITIONS = [
  "HELD_MS",
  "IS_BEING_RESTARTED",
  "hasToTakeBack",
  "holdBack",
  "isHeld",
  "leftWith",
  "noteLost",
  "releaseHeld",
  "selectKnownSteps",
  "selectToTakeBack",
  "addTags",
  "askForChildStart",
  "anyInstance",
  "areRepeats",
  "refuseRepeats",
  "isAsleep",
  "isOpenChild",
  "isOpenOf",
  "andNoted",
  "isOver",
  "keepCaught",
  "moveDue",
  "ofGone",
  "selectBlocked",
  "selectChild",
  "selectInTurn",
  "selectLeft",
  "selectNextInSlot",
  "selectRun",
  "selectStored",
  "selectUntoldEnd",
  "setProgress",
  "deleteInstances",
  "lookAtAll",
  "lookNow",
  "lookAgain",
  "lookSoon",
  "noteRestarted",
  "timesBrokenOff",
  "watchLost",
];

/**
 * The arrows of a transition, also if an unknown outcome remains: its result for a row in each status, and for no row. `[*]` means no row.
 */
function arrowsOf({ given = [], statements }: Trial): string[] {
  return [given, [...given, "doubt"] as const].flatMap((there) => arrowsWith(there, statements));
}

function arrowsWith(given: readonly (keyof typeof GIVEN)[], statements: Trial["statements"]): string[] {
  return statements.flatMap((statement) =>
    ["[*]", ...INSTANCE_STATUSES].flatMap((from) => {
      db.exec("SAVEPOINT trial");
      try {
        if (from !== "[*]") insert(from);
        for (const name of new Set(given)) db.exec(GIVEN[name]);
        const params = "row" in statement ? [JSON.stringify([statement.row])] : statement.params;
        db.prepare(statement.text).all(...params);
        const to = String(db.prepare("SELECT status FROM millrace_instances WHERE id = ?").get(ID)?.status ?? "[*]");
        return to === from ? [] : [`${from} → ${to}`];
      } finally {
        db.exec("ROLLBACK TO trial; RELEASE trial");
      }
    }),
  );
}

function insert(status: string): void {
  db.prepare(
    `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject, fingerprint, envelope,
       queue, status, accepted_at, updated_at, check_at, parent, parent_step)
     VALUES (?, ?, 'test', 'test.command', 'key', 'job', 'cause', 'subject', ?, '{}', 'test', ?, 1, 1, 1, ?, 'step')`,
  ).run(ID, TENANT, FINGERPRINT, status, PARENT);
}

/** The arrows of the diagram. An arrow from or to a composite state counts as one arrow for each state in it. */
function drawn(): string[] {
  const [, diagram = ""] = /stateDiagram-v2\n([\s\S]*?)```/.exec(readFileSync(join(ROOT, "ARCHITECTURE.md"), "utf8")) ?? [];
  const members = new Map<string, string[]>();
  const within: string[] = [];
  const arrows: [string, string][] = [];
  for (const line of diagram.split("\n").map((one) => one.trim())) {
    const group = /^state (?:"[^"]*" as )?(\w+) \{$/.exec(line)?.[1];
    const [, from, to] = /^(\S+) --> ([^\s:]+)/.exec(line) ?? [];
    if (group) within.push(group);
    else if (line === "}") within.pop();
    else if (from && to) arrows.push([from, to]);
    else if (/^\w+$/.test(line)) for (const outer of within) members.set(outer, [...(members.get(outer) ?? []), line]);
  }
  const each = (state: string) => members.get(state) ?? [state];
  return arrows.flatMap(([from, to]) => each(from).flatMap((one) => each(to).map((other) => `${one} → ${other}`)));
}

describe("The statuses of an instance", () => {
  it("instances change status along the arrows of ARCHITECTURE.md and no others", () => {
    const moved = new Set(Object.values(TRIALS).flatMap(arrowsOf));
    const arrows = drawn();
    expect([...moved].toSorted()).toEqual([...new Set(arrows)].toSorted());
    expect(arrows.length, "ARCHITECTURE.md has an arrow between two statuses twice.").toBe(new Set(arrows).size);
  });

  it("every statement that changes the status of an instance is tested in test/house/statuses.test.ts", () => {
    const exported = [accept, children, look, remove, run, stop, wait].flatMap((module) => Object.keys(module));
    const tried = new Set(Object.keys(TRIALS).map((name) => name.split(" ")[0] ?? name));
    expect([...tried, ...NO_TRANSITIONS].toSorted()).toEqual(exported.toSorted());
  });

  it("each status of an instance has an arrow that leads to it, and an arrow that leaves it unless it is final", () => {
    const arrows = drawn().map((arrow) => arrow.split(" → "));
    expect(INSTANCE_STATUSES.filter((status) => !arrows.some(([, to]) => to === status))).toEqual([]);
    expect(INSTANCE_STATUSES.filter((status) => !arrows.some(([from]) => from === status))).toEqual([]);
  });
});

it("the indexes of slots have the conditions of the statements that read them", () => {
  const conditionOf = (index: string) => (db.prepare("SELECT sql FROM sqlite_master WHERE name = ?").get(index) as { sql: string }).sql;
  expect(conditionOf("millrace_instances_in_turn").endsWith(`WHERE ${IS_INDEXED_AS_IN_TURN.fragment}`)).toBe(true);
  expect(conditionOf("millrace_instances_in_slot").endsWith(`slot_turn IS NULL AND ${IS_INDEXED_AS_UNDER_WAY.fragment}`)).toBe(true);
});

/** The values that a condition lists. */
function namedIn(condition: string): string[] {
  return [...condition.matchAll(/'(\w+)'/g)].map(([, value = ""]) => value);
}

it("the index of stopped instances contains every status that an operator must resume, and closed instances", () => {
  const { sql } = db.prepare("SELECT sql FROM sqlite_master WHERE name = 'millrace_instances_stopped'").get() as { sql: string };
  expect(sql.endsWith(`WHERE ${IS_INDEXED_AS_STOPPED.fragment}`), "A partial index serves only the condition it was created with.").toBe(
    true,
  );
  const stopped = INSTANCE_STATUSES.filter((status) => status !== "complete" && !GOING_ON.has(status));
  expect(stopped.toSorted()).toEqual(namedIn(IS_INDEXED_AS_STOPPED.fragment).toSorted());
});

it("the index of instances to call back contains ended instances, and the index of deadlines the instances that have not ended", () => {
  const indexed = { millrace_instances_to_call: IS_INDEXED_AS_OVER, millrace_instances_by_deadline: IS_INDEXED_AS_UNDER_WAY };
  for (const [name, { fragment: condition }] of Object.entries(indexed)) {
    const { sql } = db.prepare("SELECT sql FROM sqlite_master WHERE name = ?").get(name) as { sql: string };
    expect(sql.endsWith(` AND ${condition}`), "A partial index serves only the condition it was created with.").toBe(true);
    expect(namedIn(condition).toSorted()).toEqual(OVER.values.toSorted());
  }
});

it("no source lists statuses: each uses a set that is derived from the table of statuses", () => {
  const status = `['"](?:${INSTANCE_STATUSES.join("|")})['"]`;
  const list = new RegExp(`\\bstatus\\b[^\\n]*[([]${status}, ${status}`);
  const spelled = sources(/\.ts$/)
    .filter(({ file }) => file !== "engine/store/instances/status.ts")
    .flatMap(({ file, text }) => text.split("\n").map((line) => ({ file, line })))
    .filter(({ line }) => list.test(line))
    .map(({ file, line }) => `${file} lists statuses: ${line.trim()}`);
  expect(spelled).toEqual([]);
});

/** The values that a column's CHECK permits. */
function allowed(table: string, column: string): string[] {
  const { sql } = db.prepare("SELECT sql FROM sqlite_master WHERE name = ?").get(table) as { sql: string };
  const [, list = ""] = new RegExp(`\\b${column}\\s+IN\\s*\\(([^)]*)\\)`).exec(sql) ?? [];
  return namedIn(list);
}

/** The members of a union that a file of the store declares. */
function unionOf(file: string, type: string): string[] {
  const [, members = ""] = new RegExp(`type ${type} =([^;]*);`).exec(readFileSync(join(STORE, file), "utf8")) ?? [];
  return [...members.matchAll(/"(\w+)"/g)].map(([, value = ""]) => value);
}

it.each([
  ["millrace_instances", "status", INSTANCE_STATUSES],
  ["millrace_inbox", "state", unionOf("inbox/entry.ts", "EntryState")],
  ["millrace_inbox", "class", RECORDED_CLASSES],
  ["millrace_dead_letters", "state", unionOf("dead-letters.ts", "LetterState")],
  ["millrace_approvals", "state", unionOf("approvals.ts", "ApprovalState")],
  ["millrace_schedules", "state", unionOf("schedules.ts", "ScheduleState")],
  ["millrace_schedule_runs", "state", unionOf("schedule-runs.ts", "RunState")],
])("the column %s.%s has the values that its type lists and its CHECK permits", (table, column, values) => {
  expect([...values].toSorted()).toEqual(allowed(table, column).toSorted());
  expect(values.length).toBeGreaterThan(1);
});
