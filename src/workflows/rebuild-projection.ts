import { type Duration, defineWorkflow, digest, notRetryable, type Steps } from "../engine/index.ts";
import { firstMissing, type Gap, gaps, type Span } from "../facts/rebuild.ts";
import { ProjectionRebuild } from "../messages/batches.ts";
import { dropAndReplay, SLICE_LEDGERS } from "../steps/replay-ledgers.ts";

/** Before each look: longer as long as nothing arrives. When they are used up, nothing will: the ledgers have sent again by themselves three times. */
const PAUSES: readonly Duration[] = ["1 second", "1 second", "2 seconds", "5 seconds", "15 seconds", "30 seconds", "2 minutes"];

/** Makes the tenant's projection anew from its ledgers. New facts keep flowing: what they add is not part of it. */
export const rebuildProjection = defineWorkflow({
  name: "rebuild-projection",
  on: ProjectionRebuild,
  async run({ step, env, envelope: { tenant_id: tenantId } }) {
    const spans = await dropAndReplayAll(step, tenantId);
    let missing: Gap[] = spans.map((span) => ({ ...span, missing: span.last - span.first + 1 }));
    for (let look = 1, idle = 0; missing.length > 0; look++) {
      const pause = PAUSES[idle];
      if (pause === undefined) throw await stillMissing(step, env.DB, tenantId, missing);
      await step.sleep("let facts arrive", pause, { key: String(look) });
      const before = missing;
      missing = await step.read("compare", () => compare(env.DB, tenantId, before), { key: String(look) });
      idle = rowsOf(missing) < rowsOf(before) ? 0 : idle + 1;
    }
    return { ledgers: spans.length, facts: spans.reduce((sum, { first, last }) => sum + last - first + 1, 0), missing: 0 };
  },
});

async function dropAndReplayAll(step: Steps, tenantId: string): Promise<Span[]> {
  const spans: Span[] = [];
  for (let after = "", more = true; more; after = spans.at(-1)?.entity ?? "") {
    const slice = await step.effect("drop and replay", dropAndReplay, { tenantId, after }, { key: placeBehind(after) });
    spans.push(...slice);
    more = slice.length === SLICE_LEDGERS;
  }
  return spans;
}

/** The longest name that a step's key shows as it is: the step's own name has to fit beside it. */
const MAX_SHOWN_CHARACTERS = 190;

/** A step's key for the place behind a ledger. */
function placeBehind(entity: string): string {
  return `after ${entity.length <= MAX_SHOWN_CHARACTERS ? entity : `#${digest(entity)}`}`;
}

/** Which of these ledgers the projection still lacks something of. */
async function compare(db: D1Database, tenantId: string, spans: readonly Span[]): Promise<Gap[]> {
  const missing: Gap[] = [];
  for (let at = 0; at < spans.length; at += SLICE_LEDGERS) missing.push(...(await gaps(db, tenantId, spans.slice(at, at + SLICE_LEDGERS))));
  return missing;
}

async function stillMissing(step: Steps, db: D1Database, tenantId: string, missing: readonly Gap[]): Promise<Error> {
  const [gap] = missing;
  const place = gap && (await step.read("name what is missing", async () => (await firstMissing(db, tenantId, gap)) ?? gap.last));
  return notRetryable(
    `The projection still lacks ${rowsOf(missing)} facts of ${missing.length} ledgers, though they were sent again and again. The first is number ${place} of ${gap?.entity}. Look for it among the dead letters of the queue projections, then ask for a rebuild under a new request.`,
  );
}

function rowsOf(gaps: readonly Gap[]): number {
  return gaps.reduce((sum, { missing }) => sum + missing, 0);
}
