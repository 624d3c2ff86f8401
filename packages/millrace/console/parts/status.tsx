import type { Item } from "../data/api.ts";
import { timeNow } from "../data/clock.ts";
import { Ago, Quiet } from "./text.tsx";

/** The words of each tone, and its shape on a grid of 12 by 12. Statuses differ not only in color. */
const TONES = {
  green: {
    shape: "M2 6.5 5 9.5 10 3",
    words: ["complete", "done", "confirmed", "applied", "approved", "replayed", "active", "taken", "delivered", "stated"],
  },
  blue: {
    shape: "M6 6m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    words: ["running", "claimed", "open", "going", "starts", "follows", "sent", "on_its_way", "in_transit", "moving", "started", "p50"],
  },
  amber: { shape: "M10 6a4 4 0 1 1-1.4-3M9 .8v2.6H6.4", words: ["retrying", "retried", "overdue", "failed", "narrowed"] },
  violet: {
    shape: "M3 1.5h6M3 10.5h6M3.5 1.5c0 3 5 6 5 9M8.5 1.5c0 3-5 6-5 9",
    words: ["waiting", "sleeping", "pending", "full", "delayed"],
  },
  orange: { shape: "M4 4a2 2 0 1 1 3 1.8c-.8.4-1 .9-1 1.7M6 9.8v.4", words: ["in_doubt", "unknown", "p99"] },
  red: { shape: "M3 3l6 6M9 3l-6 6", words: ["ended with failures", "errored", "timed_out", "captured"] },
  grey: { shape: "M4.2 2.5v7M7.8 2.5v7", words: ["paused", "aborted"] },
  quiet: { shape: "M6 6m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", words: [] },
} as const;

export type Tone = keyof typeof TONES;

/** Words with separate shapes: an octagon, a triangle, a bell, an envelope, a barred circle. */
const OWN: readonly { tone: Tone; shape: string; words: readonly string[] }[] = [
  { tone: "red", shape: "M4 1h4l3 3v4l-3 3H4L1 8V4zM6 3.6v3M6 8.3v.2", words: ["critical"] },
  { tone: "amber", shape: "M6 1.4 11 10.6H1zM6 4.8v2.6M6 8.9v.1", words: ["warning"] },
  { tone: "amber", shape: "M3 8.6V5.5a3 3 0 0 1 6 0v3.1l1 .9H2zM5.2 11.2h1.6", words: ["firing"] },
  { tone: "red", shape: "M1.2 2.6h9.6v7H1.2zM1.4 2.9 6 6.6l4.6-3.7", words: ["dead", "dead letter"] },
  {
    ...{ tone: "red", shape: "M6 6m-4.6 0a4.6 4.6 0 1 0 9.2 0a4.6 4.6 0 1 0-9.2 0zM3.6 6h4.8" },
    words: ["held", "blocked", "stopped", "halted", "rejected", "refused"],
  },
];

export function toneOf(word: string): Tone {
  const isOf = ({ words }: { words: readonly string[] }) => words.includes(word);
  return OWN.find(isOf)?.tone ?? (Object.keys(TONES) as Tone[]).find((tone) => isOf(TONES[tone])) ?? "quiet";
}

/** The shape of a word, or of the tone. */
export function Shape({ tone, word = "", ...at }: { tone: Tone; word?: string; x?: number; y?: number }) {
  return (
    <svg {...at} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      <path d={(OWN.find(({ words }) => words.includes(word)) ?? TONES[tone]).shape} />
    </svg>
  );
}

interface StatusProps {
  word: string;
  tone?: Tone | undefined;
  /** The shown text. Default: `word`. */
  says?: string;
}

export function Status({ word, tone = toneOf(word), says = word.replaceAll("_", " ") }: StatusProps) {
  return (
    <span class="status" data-tone={tone}>
      <Shape tone={tone} word={word} />
      {says}
    </span>
  );
}

type Instance = Pick<Item<"/v1/instances">, "status" | "retrying" | "sleeping" | "waiting_for" | "held" | "overdue" | "undo" | "due_at">;

const UNDER_WAY = new Set(["accepted", "queued", "running", "waiting"]);

/** True for a command that starts at a later time. */
export function isDelayed({ status, due_at }: Pick<Instance, "status" | "due_at">): boolean {
  return status === "accepted" && due_at !== null && Date.parse(due_at) > timeNow();
}

/** The status of an instance in words. For an open instance, the words say whether it is retrying, sleeping or waiting. */
export function standing(instance: Instance): string {
  const { status, retrying, sleeping, waiting_for } = instance;
  if (!UNDER_WAY.has(status)) return status;
  if (isDelayed(instance)) return "delayed";
  return retrying ? "retrying" : waiting_for.length > 0 ? "waiting" : sleeping ? "sleeping" : status;
}

const STOPPED = new Set(["errored", "skipped"]);

export function InstanceStatus({ instance }: { instance: Instance }) {
  return (
    <>
      <Status word={standing(instance)} />
      <span class="notes">
        <StatusNotes instance={instance} />
      </span>
    </>
  );
}

/** Further words about the status of an instance: the next time, the undo, a pause, the deadline. */
export function StatusNotes({ instance }: { instance: Instance }) {
  const word = standing(instance);
  const { status, retrying, sleeping, waiting_for: waits, held, undo, overdue, due_at } = instance;
  const next: Readonly<Record<string, readonly [label: string, until: string | null | undefined]>> = {
    ...{ delayed: ["due", due_at], retrying: ["again", retrying?.next_at] },
    ...{ waiting: ["ends", waits[0]?.until], sleeping: ["wakes", sleeping?.until] },
  };
  const [label, until] = next[word] ?? [];
  const undone = undo && (undo === "done" ? "undone" : STOPPED.has(status) ? "undo failed" : "being undone");
  return (
    <>
      {until && [" ", <Quiet key="until" of={<Ago label={label} at={until} />} />]}
      {undone && [" ", <Quiet key="undo" of={undone} />]}
      {held && [" ", <Quiet key="held" of="held" why={held} />]}
      {overdue && [" ", <Quiet key="overdue" of="overdue" />]}
    </>
  );
}
