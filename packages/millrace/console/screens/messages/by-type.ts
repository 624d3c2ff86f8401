import { type Answer, get, type Item, type Result } from "../../data/api.ts";

type Minute = Item<"/v1/messages/by-minute">;

export interface TypeCounts {
  type: string;
  queue: string;
  minutes: Minute[];
  delivered: number;
  outcomes: Readonly<Record<string, number>>;
  open: number;
  captured: number;
}

export interface Counted {
  at: string;
  types: TypeCounts[];
}

const sum = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((total, count) => total + count, 0);

export const deliveredIn = ({ outcomes }: Minute) => sum(outcomes);

/** Reads the number of deliveries and the number of dead letters, and joins them by message type and queue. */
export async function readCounts(minutes: number): Promise<Result<Counted>> {
  const [counted, letters] = await Promise.all([
    get("/v1/messages/by-minute", { query: { minutes: String(minutes) } as object }),
    get("/v1/messages/dead-letters"),
  ]);
  if (!counted.ok) return counted;
  if (!letters.ok) return letters;
  return { ok: true, data: { at: counted.data.at, types: byType(counted.data.items, letters.data.items) } };
}

function byType(minutes: readonly Minute[], letters: Answer<"/v1/messages/dead-letters">["items"]): TypeCounts[] {
  const nameOf = ({ queue, type }: { queue: string; type: string }) => JSON.stringify([type, queue]);
  const counted = Map.groupBy(minutes, nameOf);
  const dead = new Map(letters.map((one) => [nameOf(one), one]));
  return [...new Set([...counted.keys(), ...dead.keys()])].sort().map((name): TypeCounts => {
    const [type, queue] = JSON.parse(name) as [string, string];
    const own = counted.get(name) ?? [];
    const outcomes: Record<string, number> = {};
    for (const one of own)
      for (const [outcome, count] of Object.entries(one.outcomes)) outcomes[outcome] = (outcomes[outcome] ?? 0) + count;
    const { open = 0, captured = 0 } = dead.get(name) ?? {};
    return { type, queue, minutes: own, delivered: sum(outcomes), outcomes, open, captured };
  });
}
