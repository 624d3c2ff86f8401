// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the searched text is source, with the placeholders of its SQL.
import { mutantsOf } from "./mutant.ts";

const PASS = "packages/millrace/src/replay/replay.ts";
const EFFECT = "packages/millrace/src/guard/effect.ts";
const LEASE = "packages/millrace/src/guard/claim.ts";

/** Effects that happen too often or not at all, and replays that take another branch than the one before. */
export const GUARD = mutantsOf("guard", {
  "an attempt does not check whether its step is already done": {
    file: "packages/millrace/src/replay/inbox.ts",
    find: "if (platformAttempt <= 1 && this.#isFirst && !this.#entries) return undefined;",
    put: "if (platformAttempt > 0) return undefined;",
    killedBy: "random",
  },
  "each attempt has its own upstream key": {
    file: "packages/millrace/src/guard/call.ts",
    find: "upstreamKey(env.MILLRACE_KEY, attempt.key)",
    put: "upstreamKey(env.MILLRACE_KEY, { ...attempt.key, item: attempt.token })",
    killedBy: "random",
  },
  "the upstream key is the same for each generation": {
    file: "packages/millrace/src/contract/ids.ts",
    find: "return signed(secret, entry.instanceId, entry.step, entry.item, String(entry.generation));",
    put: "return signed(secret, entry.instanceId, entry.step, entry.item);",
    killedBy: "random",
  },
  "parallel items share their upstream key": {
    file: "packages/millrace/src/contract/ids.ts",
    find: "return signed(secret, entry.instanceId, entry.step, entry.item, String(entry.generation));",
    put: "return signed(secret, entry.instanceId, entry.step, String(entry.generation));",
    killedBy: "random",
  },
  "a lookup is skipped before a repeat": {
    file: EFFECT,
    find: 'if ((claimed.repeats || replay.inbox.isSetBack) && definition.effect === "lookup") {',
    put: 'if (!claimed.repeats && definition.effect === "lookup") {',
    killedBy: "random",
  },
  "an unknown outcome of a once effect counts as a refusal": {
    file: LEASE,
    find: 'return !acts || isDefiniteRefusal(error) ? "failed" : "in_doubt";',
    put: 'return "failed";',
    killedBy: "random",
  },
  "an unknown outcome of a lookup counts as a refusal": {
    file: LEASE,
    find: 'return acts && isDefiniteRefusal(error) ? "failed" : "expired";',
    put: 'return "failed";',
    killedBy: "random",
  },
  "a step whose failure was caught is retried by each replay": {
    file: PASS,
    find: "const caught = this.inbox.history?.failureOf(label);",
    put: "const caught = this.inbox.history?.failureOf(`${label} `);",
    killedBy: "random",
  },
  "an effect starts after a caught failure that has no record": {
    file: "packages/millrace/src/guard/effect.ts",
    find: "if (!(await replay.mayBegin(step))) return { held: true };",
    put: "",
    killedBy: "test/proof/cases.test.ts",
  },
  "an effect after a caught failure starts although its run is paused": {
    file: "packages/millrace/src/guard/effect.ts",
    find: "if (!(await replay.mayBegin(step))) return { held: true };",
    put: "await replay.mayBegin(step);",
    killedBy: "test/engine/replay/held-back.test.ts",
  },
  "a long error message is complete in the first replay, and truncated in later ones": {
    file: PASS,
    find: "throw asRemembered(error);",
    put: "throw error;",
    killedBy: "test/engine/replay/caught-words.test.ts",
  },
  "a run waits for its resume because of an outdated status": {
    file: "packages/millrace/src/workflow/holds.ts",
    find: "const decision = await this.#steps.reading({ label, guarded }, () => this.#replay.run.readDecision());",
    put: "const decision = await this.#replay.run.decision(true);",
    killedBy: "test/engine/operate/pause.test.ts",
  },
  "a run continues, or waits for its resume, although another run has started": {
    file: "packages/millrace/src/replay/run-state.ts",
    find: 'if (run !== (await this.number())) return "stopped";',
    put: "",
    killedBy: "test/engine/operate/restart.test.ts",
  },
  "an effect starts under a key that was claimed while its run was paused": {
    file: "packages/millrace/src/guard/effect.ts",
    find: 'if ((await replay.run.decision()) !== "continue") return pausedEffect(holding, claimed.repeats);',
    put: "",
    killedBy: "test/engine/replay/held-back.test.ts",
  },
  "a key that may have been used is released as unused": {
    file: "packages/millrace/src/guard/effect.ts",
    find: 'repeats ? "expired" : "failed"',
    put: '"failed"',
    killedBy: "test/engine/replay/held-back.test.ts",
  },
  "events of a restart replace the entries that the run wrote meanwhile": {
    file: "packages/millrace/src/store/instances/run.ts",
    find: "return sql`json_patch(json_patch(coalesce(caught, '{}'), ${replaced}), ${added})`;",
    put: "return replaced && added;",
    killedBy: "test/engine/replay/held-back.test.ts",
  },
  "a recorded caught failure has no record of the earlier outcomes": {
    file: "packages/millrace/src/replay/history.ts",
    find: "[...current, ...begun]",
    put: "current",
    // A race won by a refusal, with a loser that is recorded during the next step, while the process dies.
    killedBy: "test/engine/replay/gone-on.test.ts",
  },
  "a claim that may have no outcome counts as a record of a caught failure": {
    file: "packages/millrace/src/guard/claim.ts",
    find: "    replay.inbox.noteEntry(standing, askedAt);\n    if (mine) return",
    put: "    replay.inbox.noteEntry(standing, askedAt);\n    if (mine) replay.inbox.noteOutcome(step);\n    if (mine) return",
    // Two consecutive refusals, before the fallback.
    killedBy: "test/engine/replay/gone-on.test.ts",
  },
  "a claim of an earlier replay counts as a record of a caught failure": {
    file: "packages/millrace/src/replay/history.ts",
    find: 'return state === "done" || state === "superseded";',
    put: 'return state !== "failed";',
    // Two consecutive refusals, with a process death in the second.
    killedBy: "test/engine/replay/gone-on.test.ts",
  },
  "a replay continues after another replay's record of another winner": {
    file: "packages/millrace/src/replay/inbox.ts",
    find: "!this.undoes && this.stepOrder.isContradicted(",
    put: "this.undoes && this.stepOrder.isContradicted(",
    // In local workerd a replay ends with its process, so that no program has two replays of one run.
    killedBy: "test/engine/replay/races.test.ts",
  },
  "a replay continues after another replay's record in an entry that an undo left": {
    file: "packages/millrace/src/replay/history.ts",
    find: "read.map(({ position }) => position)",
    put: "read.map(({ position }) => position).concat(this.#pasts.filter(({ generation }) => generation > 1).map(({ position }) => position))",
    killedBy: "test/engine/replay/races.test.ts",
  },
  "a result does not wait until the code calls the earlier step": {
    file: "packages/millrace/src/replay/history.ts",
    find: "for (const { label } of this.#uncalled(replay)) if (!replay.isSkipped(label)) return label;",
    put: "for (const { label, state } of this.#uncalled(replay)) if (state !== undefined && !replay.isSkipped(label)) return label;",
    killedBy: "test/engine/replay/races.test.ts",
  },
  "the code receives step results in the order of this replay": {
    file: "packages/millrace/src/replay/step-order.ts",
    find: "return index >= 0 ? index : this.#held.length;",
    put: "return 0;",
    killedBy: "random",
  },
  "a run is complete while one of its effects is running": {
    file: "packages/millrace/src/replay/guarded.ts",
    find: "while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);",
    put: "",
    killedBy: "random",
  },
  "branches continue after the end of the code": {
    file: "packages/millrace/src/replay/step-order.ts",
    find: "this.#over = true;",
    put: "",
    // The model leaves the progress of a part that the code did not await open: the programs cannot detect this bug.
    killedBy: "test/engine/workflow/run-ends.test.ts",
  },
  "a replay after a crash stops before the position of the previous replay": {
    file: "packages/millrace/src/workflow/entrypoint.ts",
    find: ".finally(() => replay.catchUp())",
    put: "",
    // A crash within a few milliseconds of a lost race: about one in some thousands of random programs with killed processes reaches it.
    killedBy: "test/engine/replay/races.test.ts",
  },
  "an undo receives the failure of a read that succeeded in the run before the failed one": {
    file: "packages/millrace/src/replay/history.ts",
    find: "if (label in left && !failedFor.has(label)) this.#caught.delete(label);",
    put: "if (label === undefined && failedFor.has(label)) this.#caught.delete(label);",
    // A run that fails because of a read which had succeeded before, and is undone: three random programs of eight thousand reached it.
    killedBy: "test/engine/operate/undo-retried.test.ts",
  },
  "outcomes that an ended replay did not receive are received in the order of their records": {
    file: "packages/millrace/src/replay/history.ts",
    find: "for (const { label } of done) if (!this.#open.has(label)) order.add(label);",
    put: "",
    // A loser recorded before the winner, and received after it: one random program of ten thousand reached it.
    killedBy: "test/engine/replay/races.test.ts",
  },
  "parallel items store their large outputs under one name": {
    file: "packages/millrace/src/guard/record.ts",
    find: "digest(attempt.key.step, attempt.key.item, attempt.token)",
    put: "digest(attempt.key.step)",
    killedBy: "random",
  },
  "a claim is not renewed while its effect is running": {
    file: LEASE,
    find: "extend().catch(() => undefined);",
    put: "",
    killedBy: "test/engine/guard/guard.test.ts",
  },
  "a branch that fails after the end of its code blocks its run forever": {
    file: "packages/millrace/src/workflow/entrypoint.ts",
    find: "await platform.followed(platform.whenDone());",
    put: "await platform.whenDone();",
    killedBy: "test/engine/replay/left-behind.test.ts",
  },
});
