import type { ProbeStep } from "../probe/messages.ts";
import type { Behaviour } from "../upstream/server.ts";
import type { Random } from "./random.ts";

/** A step as the probe's payload takes it. */
export interface ScriptStep {
  do: ProbeStep["do"];
  name: string;
  emit?: boolean;
  retries: number;
}

/** What one client asks for, and how the upstream will treat it. */
export interface ChaosCommand {
  name: string;
  /** In order; the steps of an inner list run side by side. */
  steps: (ScriptStep | ScriptStep[])[];
  behaviours: Behaviour[];
  /** Some clients ask twice at once. */
  clients: number;
}

/** Every class alone, behind and beside the others, with and without events. */
const SHAPES: ChaosCommand["steps"][] = [
  [emitting("keyed", "charge")],
  [step("lookup", "ship"), emitting("commit", "note")],
  [emitting("once", "mail")],
  [step("natural", "put"), emitting("commit", "note")],
  [emitting("commit", "note")],
  [
    step("read", "look"),
    step("keyed", "charge"),
    step("lookup", "ship"),
    step("once", "mail"),
    step("natural", "put"),
    emitting("commit", "note"),
  ],
  [[emitting("keyed", "charge"), step("lookup", "ship"), step("natural", "put")], emitting("commit", "note")],
  [step("keyed", "charge"), emitting("lookup", "ship"), emitting("keyed", "thank")],
  [[step("once", "mail"), emitting("keyed", "charge")], emitting("commit", "note")],
  [step("lookup", "reserve"), step("keyed", "charge"), emitting("commit", "note"), step("lookup", "ship"), emitting("commit", "close")],
];

/** Writes the script of a run: the same seed, the same commands. */
export function writeCommands(count: number, random: Random): ChaosCommand[] {
  return Array.from({ length: count }, (_, index) => {
    const name = `c${String(index + 1).padStart(4, "0")}`;
    const steps = SHAPES[index % SHAPES.length] ?? [];
    return {
      name,
      steps,
      behaviours: steps.flat().flatMap((one) => misbehaviour(subjectOf(name, one), one, random)),
      clients: random.chance(0.1) ? 2 : 1,
    };
  });
}

/** Under which name the upstream's ledger knows a step of a command. */
export function subjectOf(name: string, { name: step }: Pick<ScriptStep, "name">): string {
  return `${name}/${step}`;
}

/** Slow ones hold a window open for a death to fall into: before the effect (W02), or between effect and answer (W03). */
function misbehaviour(subject: string, step: ScriptStep, random: Random): Behaviour[] {
  if (step.do === "read" || step.do === "commit" || !random.chance(0.5)) return [];
  const delayMs = random.between(200, 2500);
  switch (random.pick(["slow", "slow", "late", "late", "busy", "unsure"])) {
    case "slow":
      return [{ subject, mode: "slow", delayMs, times: 1 }];
    case "late":
      return [{ subject, mode: "late", delayMs, times: 1 }];
    case "busy":
      return [{ subject, mode: "refuse", status: 429, times: random.between(1, 2) }];
    default:
      return [{ subject, mode: random.pick(["drop", "fail"]), times: 1 }];
  }
}

function step(kind: ScriptStep["do"], name: string): ScriptStep {
  return { do: kind, name, retries: 10 };
}

function emitting(kind: ScriptStep["do"], name: string): ScriptStep {
  return { ...step(kind, name), emit: true };
}
