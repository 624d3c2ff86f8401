/** One page of a list, newest first. */
export interface Page<T> {
  items: T[];
  /** The value of `cursor` for the next page; null on the last page. */
  next: string | null;
}

export interface PageRequest {
  cursor?: string | undefined;
  /** Maximum number of items of a page: default 50, at most 200. */
  limit?: number | undefined;
}

/** The position after which a page starts: the time and the id of a row. */
export interface Position {
  at: number;
  id: string;
}

/** The result of a bounded scan of a list. The next page starts at `end`. */
export interface Looked<T> {
  found: T[];
  /** The position at which the scan ended; undefined when the scan reached the end of the list. */
  end: Position | undefined;
}

/**
 * Reads one page by keyset. `load` returns the items before a position, at most one more than the page contains. An invalid cursor gives
 * the first page.
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

/**
 * Maximum number of rows that are scanned for one page, if no index supports the filter. A filter that few rows match gives short pages
 * instead of a full scan.
 */
export const LOOKED_AT = 5_000;

/** The position that a cursor encodes; undefined for an invalid cursor. */
export function positionOf(cursor = ""): Position | undefined {
  const [at, id] = cursor.split(".");
  return at && id && Number.isSafeInteger(Number(at)) ? { at: Number(at), id } : undefined;
}
