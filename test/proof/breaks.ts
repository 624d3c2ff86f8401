import { platformOf } from "./judge.ts";
import { pause, type Stage, type Subject } from "./stage.ts";

const LOOK_MS = 100;
/** How long it is waited for a run to have an effect under way before it is broken off. */
const HELD_MS = 3000;

/** The platform loses all that it knows of a run that is under way, and makes it anew: in the midst of an effect, if there is one. */
export async function breakOff(stage: Stage, run: Subject, afterMs: number): Promise<void> {
  await pause(afterMs);
  const held = () => stage.rows("SELECT step FROM inbox WHERE instance_id = ?1 AND state = 'claimed'", run.id);
  for (const until = Date.now() + HELD_MS; Date.now() < until && (await held()).length === 0; ) await pause(LOOK_MS);
  const { status } = await platformOf(stage, run.id);
  if (status === "running" || status === "waiting") await Promise.race([stage.restart(run.id).catch(() => undefined), pause(HELD_MS)]);
}
