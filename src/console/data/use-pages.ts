import { useEffect, useState } from "preact/hooks";
import type { Result } from "./api.ts";
import type { LiveEvent } from "./live.ts";
import { type Data, useData } from "./use-data.ts";

interface Page<Row> {
  items: Row[];
  next_cursor: string | null;
}

/** A list that is read page by page. */
export interface Pages<Row> extends Omit<Data<unknown>, "data"> {
  /** Undefined until the first page is read. */
  rows: Row[] | undefined;
  /** Reads the next page; undefined on the last one. */
  more: (() => void) | undefined;
}

/**
 * Reads a list by its cursor. The first page is kept new; of pages behind it, rows that change are put in their place as the stream tells
 * them (`rowIn`), and none is told of twice.
 */
export function usePages<Row>(
  load: (cursor: string | undefined) => Promise<Result<Page<Row>>>,
  depends: readonly unknown[],
  {
    nameOf,
    isAbout,
    rowIn,
  }: { nameOf: (row: Row) => string; isAbout: (event: LiveEvent) => boolean; rowIn?: (event: LiveEvent) => Row | undefined },
): Pages<Row> {
  const [behind, setBehind] = useState<{ rows: Row[]; cursor: string | null } | undefined>();
  useEffect(() => setBehind(undefined), depends);
  const first = useData(
    () => load(undefined),
    depends,
    (event) => {
      const changed = rowIn?.(event);
      if (changed)
        setBehind((before) => before && { ...before, rows: before.rows.map((row) => (nameOf(row) === nameOf(changed) ? changed : row)) });
      return isAbout(event);
    },
  );
  const cursor = behind ? behind.cursor : first.data?.next_cursor;
  const more = async () => {
    const next = await load(cursor ?? undefined);
    // All that is shown by then stays: what newer rows push off the first page is not lost between the two.
    if (next.ok) setBehind({ rows: [...(rows ?? []), ...next.data.items], cursor: next.data.next_cursor });
    else first.again();
  };
  const known = new Set(first.data?.items.map(nameOf));
  const rows = first.data && [...first.data.items, ...(behind?.rows ?? []).filter((row) => !known.has(nameOf(row)))];
  return { ...first, rows, more: cursor ? more : undefined };
}
