/** One page of a list, newest first. */
export interface Page<T> {
  items: T[];
  /** Pass it as `cursor` for the next page; null on the last one. */
  next: string | null;
}

/** Which page is asked for. */
export interface PageRequest {
  cursor?: string | undefined;
  /** Default 50, at most 200. */
  limit?: number | undefined;
}

/** Where a page begins: behind this time and id. */
export interface Position {
  at: number;
  id: string;
}

/** What was found, by a look that ended before the list did: the next page begins there. */
export interface Looked<T> {
  found: T[];
  /** Undefined where the list ended first. */
  end: Position | undefined;
}

/**
 * Reads one page by its keyset: `load` answers what stands before a position, one more than the page holds. An unreadable cursor starts
 * from the top.
 */
export async function keysetPage<T>(
  { cursor = "", limit = 50 }: PageRequest,
  position: (item: T) => Position,
  load: (before: Position, limit: number) => Promise<T[] | Looked<T>>,
): Promise<Page<T>> {
  const size = Math.min(limit, 200);
  const looked = await load(positionOf(cursor) ?? { at: Number.MAX_SAFE_INTEGER, id: "" }, size + 1);
  const { found, end } = Array.isArray(looked) ? { found: looked, end: undefined } : looked;
  const items = found.slice(0, size);
  const last = items.at(-1);
  const behind = found.length > size && last ? position(last) : end;
  return { items, next: behind ? `${behind.at}.${behind.id}` : null };
}

/** Rows that one page looks at for a filter that no index serves: what is rare makes short pages, but never reads all that there is. */
export const LOOKED_AT = 5_000;

/** The position that a cursor says; undefined for what is none. */
export function positionOf(cursor = ""): Position | undefined {
  const [at, id] = cursor.split(".");
  return at && id && Number.isSafeInteger(Number(at)) ? { at: Number(at), id } : undefined;
}
