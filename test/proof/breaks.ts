import { platformOf } from "./judge.ts";
import { leavesOf, type Part, type Program, partsOf, ROOT } from "./program.ts";
import { pause, type Stage, type Subject } from "./stage.ts";
import { askedOf } from "./upstream.ts";
import type { World } from "./world.ts";

/** The platform loses its record of a run in the middle. */
export const isBrokenOff = ({ breaks = [], clicks }: Pick<World, "breaks" | "clicks">): boolean =>
  breaks.length > 0 || clicks.some(({ verb }) => verb === "restart");

const LOOK_MS = 100;
/** The wait for a run to have a running effect before it is interrupted. */
const HELD_MS = 3000;

/** The platform loses all its records of a running instance, and restarts it: in the middle of an effect, if there is one. */
export async function breakOff(stage: Stage, run: Subject, afterMs: number): Promise<void> {
  await pause(afterMs);
  const instead = new Set(insteadIn(run.program, ROOT).map((at) => `${run.name}/${at}`));
  const held = async () =>
    (await stage.rows("SELECT step FROM millrace_inbox WHERE instance_id = ?1 AND state = 'claimed'", run.id)).length > 0 ||
    (instead.size > 0 && (await askedOf(stage.upstreamUrl, `${run.name}/`)).some((one) => instead.has(one)));
  for (const until = Date.now() + HELD_MS; Date.now() < until && !(await held()); ) await pause(LOOK_MS);
  const { status } = await platformOf(stage, run.id);
  if (status === "running" || status === "waiting") await Promise.race([stage.restart(run.id).catch(() => undefined), pause(HELD_MS)]);
}

/** The places of fallback steps, which have no record before they are done. */
function insteadIn(program: Program, at: string): string[] {
  const parts = partsOf(program, at);
  const inner = parts.flatMap((part) => insteadIn(part.program, part.at));
  const [, next]: (Part | undefined)[] = program.do === "try" && program.bare ? parts : [];
  return next ? [...inner, ...leavesOf(next.program, next.at).map((leaf) => leaf.at)] : inner;
}
