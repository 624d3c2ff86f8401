const HOUR_MS = 3_600_000;
/** Maximum number of slices of one scan in one round. */
const MAX_SLICES = 100;

/** A scan that reads its records slice by slice. */
interface Sliced {
  readonly name: string;
  /** Hours from the end of one scan to the start of the next. Default: 1. */
  readonly everyHours?: number;
}

/** The due time of a scan, and the position of its next slice if the scan is in progress. */
interface Turn {
  dueAt: number;
  from: string | null;
}

/**
 * Runs slices of the due scans until a time, at least one slice. The scan that has waited longest runs first. The storage keeps each scan's
 * position under `key`. `slice` returns the next position, or undefined after a failure; then the scan continues an hour later. Returns the
 * names of the due scans that are not complete.
 */
export async function runSlices<Scan extends Sliced>(
  storage: DurableObjectStorage,
  key: string,
  scans: readonly Scan[],
  until: number,
  slice: (scan: Scan, from: string | null) => Promise<{ readonly next: string | null; readonly isOver: boolean } | undefined>,
): Promise<string[]> {
  const turns = (await storage.get<Record<string, Turn>>(key)) ?? {};
  const turnOf = ({ name }: Sliced) => turns[name] ?? { dueAt: 0, from: null };
  const startedAt = Date.now();
  const due = scans.filter((scan) => turnOf(scan).dueAt <= startedAt).sort((a, b) => turnOf(a).dueAt - turnOf(b).dueAt);
  for (const [place, scan] of due.entries()) {
    if (place > 0 && Date.now() >= until) break;
    let turn = turnOf(scan);
    for (let slices = 0; slices < MAX_SLICES; slices++) {
      const done = await slice(scan, turn.from);
      const restMs = done === undefined ? HOUR_MS : done.isOver ? (scan.everyHours ?? 1) * HOUR_MS : 0;
      turn = { dueAt: Date.now() + restMs, from: done === undefined ? turn.from : done.next };
      if (restMs > 0 || Date.now() >= until) break;
    }
    turns[scan.name] = turn;
  }
  if (due.length > 0) await storage.put(key, turns);
  return due.filter((scan) => turnOf(scan).dueAt <= Date.now()).map(({ name }) => name);
}
