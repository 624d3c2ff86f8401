import { useEffect, useRef, useState } from "preact/hooks";
import type { Result } from "./api.ts";
import type { LiveEvent } from "./live.ts";
import type { Problem } from "./problem.ts";
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
  /** Begins again at the newest; undefined where the rows have them already. */
  newest: (() => void) | undefined;
}

/** What is shown once a second page was asked for. */
interface Shown<Row> {
  rows: Row[];
  cursor: string | null;
  /** More came than a first page holds: between that and these rows some would be missing. */
  isTorn: boolean;
}

/**
 * Reads a list by its cursor. The first page is kept new, and what is shown behind it stays joined to it; rows that change are put in their
 * place as the stream tells them (`rowIn`). Where more has come than a page holds, the rows stay as they are until the newest are asked for.
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
  /** The list that is read, and whether its next page is under way. */
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
    // The answer of a list that is not shown any more.
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

/** Rows with a first page that was read anew: it replaces what it reaches down to, and what it does not have of that is gone. */
function joined<Row>(page: readonly Row[], shown: Shown<Row>, nameOf: (row: Row) => string): Shown<Row> {
  if (shown.isTorn) return shown;
  const anew = new Set(page.map(nameOf));
  const reach = shown.rows.findLastIndex((row) => anew.has(nameOf(row)));
  if (reach < 0 && shown.rows.length > 0) return { ...shown, isTorn: true };
  return { ...shown, rows: [...page, ...shown.rows.slice(reach + 1)] };
}
