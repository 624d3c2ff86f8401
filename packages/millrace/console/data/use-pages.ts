import { useEffect, useRef, useState } from "preact/hooks";
import type { Result } from "./api.ts";
import type { LiveEvent } from "./live.ts";
import type { Problem } from "./problem.ts";
import { type Data, useData } from "./use-data.ts";

interface Page<Row> {
  items: Row[];
  next_cursor: string | null;
}

export interface Pages<Row> extends Omit<Data<unknown>, "data"> {
  rows: Row[] | undefined;
  /** Loads the next page of the list. Undefined if the last page is loaded. */
  more: (() => void) | undefined;
  /** Reloads the list from the newest row. Undefined if the shown rows include the newest row. */
  newest: (() => void) | undefined;
}

interface Shown<Row> {
  rows: Row[];
  cursor: string | null;
  /** True if there are more new rows than one page, so that rows are missing between the first page and the shown rows. */
  isTorn: boolean;
}

/**
 * Loads a list page by page. The first page is kept up to date and merged with the later pages. `rowIn` reads a changed row from an event.
 * If there are more new rows than one page, the shown rows remain until the user requests the newest rows.
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
  const [shown, show] = useState<Shown<Row> | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const list = useRef({ nth: 0, isReading: false });
  useEffect(() => {
    list.current = { nth: list.current.nth + 1, isReading: false };
    show(undefined);
    setProblem(undefined);
  }, depends);
  const first = useData(
    () => load(undefined),
    depends,
    (event) => {
      const changed = rowIn?.(event);
      if (changed)
        show((before) => before && { ...before, rows: before.rows.map((row) => (nameOf(row) === nameOf(changed) ? changed : row)) });
      return isAbout(event);
    },
  );
  useEffect(() => {
    if (first.data) show((before) => before && joined(first.data?.items ?? [], before, nameOf));
  }, [first.data]);

  const cursor = shown ? shown.cursor : first.data?.next_cursor;
  const more = async () => {
    const { nth, isReading } = list.current;
    if (isReading) return;
    list.current.isReading = true;
    const next = await load(cursor ?? undefined);
    if (nth !== list.current.nth) return;
    list.current.isReading = false;
    setProblem(next.ok ? undefined : next.problem);
    if (!next.ok) return;
    const { items, next_cursor } = next.data;
    show((before) => {
      const rows = before?.rows ?? first.data?.items ?? [];
      const known = new Set(rows.map(nameOf));
      return { isTorn: false, ...before, rows: [...rows, ...items.filter((row) => !known.has(nameOf(row)))], cursor: next_cursor };
    });
  };
  const newest = () => {
    show(undefined);
    first.again();
  };
  return {
    ...first,
    problem: first.problem ?? problem,
    rows: shown?.rows ?? first.data?.items,
    more: cursor ? more : undefined,
    newest: shown?.isTorn ? newest : undefined,
  };
}

/** Merges a reloaded first page with the shown rows. The page replaces the shown rows down to the last row that both contain. */
function joined<Row>(page: readonly Row[], shown: Shown<Row>, nameOf: (row: Row) => string): Shown<Row> {
  if (shown.isTorn) return shown;
  const anew = new Set(page.map(nameOf));
  const reach = shown.rows.findLastIndex((row) => anew.has(nameOf(row)));
  if (reach < 0 && shown.rows.length > 0) return { ...shown, isTorn: true };
  return { ...shown, rows: [...page, ...shown.rows.slice(reach + 1)] };
}
