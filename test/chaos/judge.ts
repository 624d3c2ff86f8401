import type { LedgerEntry } from "../upstream/server.ts";
import { type ChaosCommand, type ScriptStep, subjectOf } from "./commands.ts";
import type { Account } from "./worker.ts";

/** Something that must never be. */
export interface Fault {
  kind: "duplicate" | "lost";
  command: string;
  step: string;
  what: string;
}

export interface Verdict {
  /** Effects of the once-only classes (keyed, lookup, once) in the upstream's ledger. */
  effects: number;
  /** Instances that wait for a person to settle a doubt. */
  parked: number;
  /** Repeats of `natural` effects: allowed, and told. */
  naturalRepeats: number;
  /** Effects whose first attempt did not live to record them: how much the deaths really hit. */
  takeovers: number;
  faults: Fault[];
}

/** Effect classes of which the upstream may see each effect once. */
const ONCE_ONLY: ReadonlySet<string> = new Set(["keyed", "lookup", "once"]);

/** Holds what the database says against what the upstream says. Of how often an effect happened, the upstream alone is asked. */
export function judge(
  commands: readonly ChaosCommand[],
  accepted: ReadonlySet<string>,
  ledger: readonly LedgerEntry[],
  account: Account,
): Verdict {
  const happened = Map.groupBy(ledger, ({ subject }) => subject);
  const faults = commands.flatMap((command) => judgeCommand(command, accepted, happened, account));
  const followers = account.instances.filter(({ workflow, status }) => workflow !== "probe" && status !== "complete");
  faults.push(...followers.map(({ name, workflow, status, error }) => lost(name, workflow, `is ${status}, not complete ${error ?? ""}`)));
  if (account.outbox > 0) faults.push(lost("*", "outbox", `${account.outbox} committed messages were never confirmed`));
  if (account.dead_letters > 0) faults.push(lost("*", "dead letters", `${account.dead_letters} messages were given up`));
  const steps = commands.flatMap(({ name, steps }) =>
    steps.flat().map((step) => ({ step, count: happened.get(subjectOf(name, step))?.length ?? 0 })),
  );
  return {
    effects: sum(steps.filter(({ step }) => ONCE_ONLY.has(step.do)).map(({ count }) => count)),
    parked: account.instances.filter(({ status }) => status === "in_doubt").length,
    naturalRepeats: sum(steps.filter(({ step }) => step.do === "natural").map(({ count }) => Math.max(0, count - 1))),
    takeovers: account.inbox.filter(({ epoch }) => epoch > 1).length,
    faults,
  };
}

function judgeCommand(
  command: ChaosCommand,
  accepted: ReadonlySet<string>,
  happened: ReadonlyMap<string, LedgerEntry[]>,
  account: Account,
): Fault[] {
  const { name } = command;
  const instances = account.instances.filter((one) => one.workflow === "probe" && one.name === name);
  const [instance] = instances;
  if (!accepted.has(name)) return [lost(name, "", "no client was answered 202")];
  if (!instance) return [lost(name, "", "was accepted and has no instance")];
  const entries = account.inbox.filter((one) => one.instance_id === instance.id);
  const faults: Fault[] = [];
  if (instances.length > 1) faults.push(duplicate(name, "", `became ${instances.length} instances`));
  if (instance.status === "in_doubt") {
    if (!entries.some(({ state }) => state === "in_doubt")) faults.push(lost(name, "", "is parked, but none of its effects is in doubt"));
  } else if (instance.status !== "complete") {
    faults.push(lost(name, "", `is ${instance.status}, neither complete nor parked ${instance.error ?? ""}`));
  }
  for (const step of command.steps.flat()) {
    const entry = entries.find((one) => one.step === step.name);
    const rows = account.rows.find((one) => one.kind === "commit" && one.name === subjectOf(name, step))?.count ?? 0;
    faults.push(
      ...judgeStep(name, step, instance.status, entry, step.do === "commit" ? rows : (happened.get(subjectOf(name, step)) ?? [])),
    );
  }
  return [...faults, ...judgeEvents(command, entries, account)];
}

function judgeStep(
  name: string,
  step: ScriptStep,
  status: string,
  entry: Account["inbox"][number] | undefined,
  seen: number | readonly LedgerEntry[],
): Fault[] {
  if (step.do === "read") return [];
  const count = typeof seen === "number" ? seen : seen.length;
  const what = step.do === "commit" ? "row" : "effect";
  if (count > 1 && step.do !== "natural")
    return [duplicate(name, step.name, `${count} ${what}s of class ${step.do}, recorded as ${entry?.state ?? "nothing"}`)];
  if (status === "complete" && entry?.state !== "done")
    return [lost(name, step.name, `the instance is complete, the step is ${entry?.state ?? "not recorded"}`)];
  if (entry?.state === "done" && count === 0) return [lost(name, step.name, `recorded as done, but the ${what} is not there`)];
  if (entry?.state !== "done" && step.do === "commit" && count > 0) return [duplicate(name, step.name, "a row without its record")];
  const answered = typeof seen === "number" ? undefined : seen.map(({ id }) => JSON.stringify(id));
  if (entry?.state === "done" && answered && !answered.includes(entry.output ?? "")) {
    return [lost(name, step.name, `the record says ${entry.output}, the upstream answered ${answered.join(", ")}`)];
  }
  return [];
}

/** A step is done if and only if its event exists; the event starts one instance, sends one command and is heard once. */
function judgeEvents(command: ChaosCommand, entries: Account["inbox"], account: Account): Fault[] {
  const emitted = command.steps
    .flat()
    .filter((step) => step.emit && entries.some((one) => one.step === step.name && one.state === "done")).length;
  const rowsOf = (kind: string) => account.rows.find((one) => one.kind === kind && one.name === command.name)?.count ?? 0;
  const applied = {
    "count-done row": rowsOf("event"),
    "follow row": rowsOf("command"),
    "listener entry": account.heard[command.name] ?? 0,
  };
  return Object.entries(applied).flatMap(([what, count]) => {
    if (count === emitted) return [];
    const say = `${count} of ${what}, for ${emitted} events`;
    return [count > emitted ? duplicate(command.name, what, say) : lost(command.name, what, say)];
  });
}

function duplicate(command: string, step: string, what: string): Fault {
  return { kind: "duplicate", command, step, what };
}

function lost(command: string, step: string, what: string): Fault {
  return { kind: "lost", command, step, what };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
