import { isFunction } from "../contract/declared.ts";
import { MillraceError } from "../contract/errors.ts";
import { laneIn, type QueueDefinition } from "../contract/queue.ts";

/** A dead letter that was just captured, as a repair is asked about it. */
export interface RepairableLetter {
  /** The code of what it failed of, or `exhausted`. */
  readonly reason: string;
  /** What the error said. */
  readonly error: string;
  readonly messageType: string | null;
  readonly attempts: number;
  /** The message as it came: its fields are those of the envelope, but nobody has checked them. A copy: changing it changes nothing. */
  readonly message: Readonly<Record<string, unknown>>;
}

/**
 * A known failure, and how its message is mended. Both functions are pure and quick. What `mend` answers is validated as strictly as an
 * operator's correction: it keeps its tenant, key, source, kind and type.
 */
export interface Repair {
  /** Lower case letters, digits and hyphens: shown on the letter, counted, audited. */
  readonly name: string;
  /** True for letters that this repair is for. The first of a queue's repairs that says so is tried, and no other. */
  readonly when: (letter: RepairableLetter) => boolean;
  /** The whole message, mended. */
  readonly mend: (message: RepairableLetter["message"]) => unknown;
}

/** The repairs of a queue. Errors: `config_invalid` for a name that is none or is there twice, and for repairs of a lane. */
export function checkedRepairs({ name: queue }: QueueDefinition, repairs: readonly Repair[]): readonly Repair[] {
  const said = (what: string) => new MillraceError("config_invalid", `The consumer of "${queue}" has ${what}`);
  if (!Array.isArray(repairs) || !repairs.every((repair) => isFunction(repair?.when) && isFunction(repair.mend)))
    throw said("repairs that are none: say them in a list, each { name, when, mend } with two functions.");
  const names = repairs.map(({ name }) => name);
  if (repairs.length > 0 && laneIn(queue) !== undefined)
    throw said("repairs, and a mended message would come behind what has passed it in its lane: leave them out.");
  for (const name of names) {
    if (!/^[a-z][a-z0-9-]{0,63}$/.test(name)) throw said(`a repair named "${name}": use up to 64 lower case letters, digits and hyphens.`);
    if (names.filter((one) => one === name).length > 1) throw said(`two repairs named "${name}": rename one.`);
  }
  return repairs;
}
