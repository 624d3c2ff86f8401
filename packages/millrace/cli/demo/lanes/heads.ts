import type { LaneLook } from "millrace/operate";
import { Refusal } from "../../command.ts";
import { column, paint, say } from "../../terminal.ts";
import type { Until } from "../until.ts";
import type { LanesApi } from "./api.ts";
import type { Heard, Outside } from "./outside.ts";

/** A lane of each policy, with what its owner wants of it, and the steps that are taken in the end, in their order. */
const LANES = [
  { lane: "block", wants: "nothing may pass", ends: [1, 2, 3] },
  { lane: "park", wants: "the others go on", ends: [1, 3, 2] },
  { lane: "hold", wants: "a person decides", ends: [1, 2, 3] },
] as const;
const ORDER = "order-7";
const BAD = 2;
const LATEST = 3;
/** A head that blocks has been tried so often when the others are looked at: more often than one that holds or is parked. */
const TRIES = 5;

/** Has a message fail in a lane of each policy, shows how they stand, and what follows when a person steps in. */
export async function failingHeads(api: LanesApi, outside: Outside, until: Until): Promise<void> {
  const since = outside.heard.length;
  const heardBy = (lane: string) => outside.heard.slice(since).filter((one) => one.lane === lane);
  const looks = () => Promise.all(LANES.map(({ lane }) => api.look(lane, ORDER)));
  outside.refuse(BAD);
  const steps = Array.from({ length: LATEST }, (_, at) => ({ order: ORDER, step: at + 1 }));
  await Promise.all(LANES.map(({ lane }) => api.send(lane, steps)));
  let stood: LaneLook[] = [];
  await until(async () => {
    stood = await looks();
    const [block, park, hold] = stood;
    const tries = heardBy("block").filter(({ taken }) => !taken).length;
    return tries >= TRIES && block?.state === "retrying" && park?.letters === 1 && park.state === "empty" && hold?.state === "held";
  }, "one lane blocks, one has parked its head, and one holds");
  for (const [at, { lane, wants }] of LANES.entries()) {
    const { depth = 0, letters = 0, why } = stood[at] ?? {};
    const stands = why ?? `It has gone on, and keeps ${letters} dead letter.`;
    say(`  ${paint("cyan", column(lane, 6))} ${column(wants, 17)} ${inWords(heardBy(lane), 26)} ${depth} wait. ${stands}`);
  }
  expectTaken(heardBy, { block: [1], park: [1, LATEST], hold: [1] });

  outside.refuse(undefined);
  await Promise.all([api.resume("hold", ORDER), api.resend("park", ORDER)]);
  say("\n  The warehouse is repaired. A person resumes the lane that holds, and sends the dead letter again.");
  await until(async () => (await looks()).every(({ state, letters }) => state === "empty" && letters === 0), "all lanes are empty");
  for (const { lane } of LANES) say(`  ${paint("cyan", column(lane, 6))} ${column("", 17)} ${inWords(heardBy(lane))}`);
  expectTaken(heardBy, Object.fromEntries(LANES.map(({ lane, ends }) => [lane, ends])));
  say(`  ${paint("green", "✓")} Nothing passed the head that blocks or holds; what was parked came last, and nothing was lost.`);
}

/** What was heard, in its order, filled up to a width: colours have none. */
function inWords(heard: readonly Heard[], width = 0): string {
  const words = heard.map(({ step, taken }) => (taken ? `${step}` : `${step}✗`));
  const painted = words.map((word) => paint(word.endsWith("✗") ? "red" : "green", word));
  return painted.join(" ") + " ".repeat(Math.max(0, width - words.join(" ").length));
}

function expectTaken(heardBy: (lane: string) => Heard[], expected: Record<string, readonly number[]>): void {
  const wrong = Object.entries(expected)
    .map(([lane, steps]) => ({ lane, steps, taken: takenOf(heardBy(lane)) }))
    .filter(({ steps, taken }) => steps.join() !== taken.join())
    .map(({ lane, steps, taken }) => `Of the lane “${lane}” the warehouse took ${taken.join(", ")} instead of ${steps.join(", ")}.`);
  if (wrong.length > 0) throw new Refusal(wrong.join(" "));
}

function takenOf(heard: readonly Heard[]): number[] {
  return heard.filter(({ taken }) => taken).map(({ step }) => step);
}
