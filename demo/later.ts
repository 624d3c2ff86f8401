import { setTimeout as sleep } from "node:timers/promises";
import { Refusal } from "../packages/millrace/cli/command.ts";
import { paint, say } from "../packages/millrace/cli/terminal.ts";
import type { BrandApi, Decision } from "./api.ts";
import { BRAND, FIRST, KEYWORDS, PER_KEYWORD, REFUSAL, REFUSED, WAITING } from "./job.ts";
import { paidOtherwise } from "./outcome.ts";
import { Timeline } from "./timeline.ts";
import { chapter, watch } from "./watch.ts";

const SECOND = "second";
const THIRD = "third";
const AUDIT = "audit";
const WITHIN_MS = 30_000;
const LOOK_EVERY_MS = 100;

/**
 * Runs two more cycles. The agent skips repeated keywords, and delays a keyword that exceeds the maximum number of drafts. A failed keyword
 * makes this keyword possible, and recent research is reused.
 */
export async function laterCycles(api: BrandApi, stop: AbortSignal, show: (decisions: readonly Decision[]) => void): Promise<void> {
  const timelines = new Map<string, Timeline>();
  const begin = (correlation: string) => timelines.set(correlation, new Timeline(Date.now()));
  const follow = (correlation: string, expected: number) => {
    const timeline = timelines.get(correlation) as Timeline;
    return watch({ api, correlation, expected, withinMs: WITHIN_MS, timeline, stop });
  };

  chapter(4, `A second cycle: the same keywords and two new ones, with a maximum of one draft. The writer refuses “${REFUSED}”.`);
  await api.setBrand(BRAND, { rate_per_second: 20, max_drafts: 1 });
  await api.setFaults([REFUSAL]);
  begin(SECOND);
  await api.cycle(BRAND, SECOND, [...KEYWORDS, REFUSED, WAITING]);
  await follow(SECOND, 3);
  say();
  show(await api.decisions(BRAND, SECOND));
  await expectVerdicts(api, SECOND, [...KEYWORDS.map(() => "skipped"), "requested", "held"]);

  chapter(5, "An audit finds that it has failed; the held keyword starts automatically");
  await api.clearFaults();
  begin(AUDIT);
  await api.audit(BRAND, AUDIT);
  await follow(AUDIT, 1);
  for (const finding of (await api.brand(BRAND)).last_audit?.findings ?? []) say(`  ${paint("yellow", finding)}`);
  await follow(SECOND, 3 + PER_KEYWORD);
  say();
  show((await api.decisions(BRAND, SECOND)).filter(({ keyword }) => keyword === WAITING));
  await expectVerdicts(api, SECOND, [...KEYWORDS.map(() => "skipped"), "requested", "held", "resumed"]);

  chapter(6, `A third cycle requests “${REFUSED}” again: its research already exists`);
  begin(THIRD);
  await api.cycle(BRAND, THIRD, [REFUSED]);
  await follow(THIRD, 1 + PER_KEYWORD);
  say();
  show(await api.decisions(BRAND, THIRD));
  await expectVerdicts(api, THIRD, ["reused"]);

  const all = KEYWORDS.length + 2;
  const counts = await settled(api, all, stop);
  const wrong = [
    ...paidOtherwise(await api.ledgerTotals(), all),
    ...(counts.live === all && counts.drafts + counts.on_their_way + counts.held === 0
      ? []
      : [`The brand's counts are ${JSON.stringify(counts)}.`]),
  ];
  if (wrong.length > 0) throw new Refusal(`The later cycles did not end as expected. ${wrong.join(" ")}`);
  say(`\n  In three cycles (${[FIRST, SECOND, THIRD].join(", ")}) ${all} keywords were researched, written and published once each.`);
}

async function expectVerdicts(api: BrandApi, cycle: string, expected: readonly string[]): Promise<void> {
  const found = (await api.decisions(BRAND, cycle)).map(({ verdict }) => verdict);
  if (found.join() !== expected.join()) throw new Refusal(`The agent decided ${found.join(", ")} instead of ${expected.join(", ")}.`);
}

/** The brand's state after its agent has processed the last article. */
async function settled(api: BrandApi, live: number, stop: AbortSignal) {
  for (const deadline = Date.now() + WITHIN_MS; ; await sleep(LOOK_EVERY_MS)) {
    stop.throwIfAborted();
    const { counts } = await api.brand(BRAND);
    if (counts.live >= live || Date.now() > deadline) return counts;
  }
}
