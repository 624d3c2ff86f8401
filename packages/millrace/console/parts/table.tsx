import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { cell, useCell } from "../data/cell.ts";
import { go, hrefOf, useKeys } from "../frame/router.tsx";
import { LinkTo } from "./page.tsx";
import { Status } from "./status.tsx";
import { Ago, begun, zone } from "./text.tsx";

export interface Column<Row> {
  /** The field of the row that the column shows. The name of a field determines its kind: a time, a status, or a text. */
  of?: keyof Row & string;
  /** Default: the name of the field in words. */
  head?: string;
  /** Default: the value of the field. */
  cell?: (row: Row) => ComponentChildren;
  /** The column's width as a CSS grid width, such as `2fr` or `96px`. Default `1fr`. */
  width?: string;
  /** The column's width in a narrow window. Default `width`. */
  narrow?: string;
  /** True for a column that narrow windows hide. */
  isMinor?: boolean;
  isNumber?: boolean;
}

/** The columns of times, which are as wide as the longest relative time. */
const TIME = { width: "96px", narrow: "88px", isNumber: true } as const;
const IS_TIME = /(^|_)at$|^since$/;
/** The screens of the items that fields name. */
const SCREENS: Readonly<Record<string, string>> = { correlation_id: "jobs", instance_id: "instances", dead_letter_id: "dead-letters" };
const IS_STATUS = /^(status|state|result)$/;

/** A column with the defaults for the kind of its field. */
function wholeOf<Row>(column: Column<Row>): Column<Row> & { head: string; cell: NonNullable<Column<Row>["cell"]> } {
  const { of = "" as never } = column;
  const value = (row: Row) => row[of as keyof Row] as string | number | null;
  const head = begun(of.replace(/_at$/, ""));
  if (IS_TIME.test(of)) return { head, cell: (row) => value(row) && <Ago at={String(value(row))} />, ...TIME, ...column };
  const place = SCREENS[of];
  if (place) return { head, cell: (row) => value(row) && <LinkTo to={hrefOf(place, String(value(row)))} of={value(row)} />, ...column };
  if (IS_STATUS.test(of)) return { head, cell: (row) => <Status word={String(value(row))} />, ...column };
  return { head, cell: (row) => shown(value(row)), ...column };
}

function shown(value: string | number | null): ComponentChildren {
  return typeof value === "number" ? value.toLocaleString() : <bdi title={value ?? undefined}>{value}</bdi>;
}

export interface TableProps<Row extends object> {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  nameOf: (row: Row) => string;
  hrefOf?: (row: Row) => string;
  below?: (row: Row) => ComponentChildren;
  /** The names of the selected rows. The key `x` selects a row. Undefined if the rows cannot be selected. */
  selected?: ReadonlySet<string>;
  select?: (names: ReadonlySet<string>) => void;
}

/** The heights of rows in hand.css. */
const ROW_PX = 32;
const TWO_LINES_PX = 52;
const NARROW = matchMedia("(max-width: 720px)");
const narrow = cell(NARROW.matches);
NARROW.addEventListener("change", ({ matches }) => narrow.set(matches));
/** Maximum number of rows that are rendered completely. Of a longer list, only rows near the viewport are rendered. */
const VIRTUAL_FROM = 100;
const BESIDE = 8;
/** The rendered range moves in steps of this many rows, so that most scroll movements render nothing. */
const STEP = 5;

/** A table with the keys `j`, `k`, Enter and `x`. The focused row keeps the focus when rows are added. */
export function Table<Row extends object>(props: TableProps<Row>) {
  const { label, rows, nameOf, hrefOf, below, selected, select } = props;
  const columns = useMemo(() => props.columns.map(wholeOf), [props.columns]);
  const body = useRef<HTMLTableSectionElement>(null);
  const [current, setCurrent] = useState("");
  const rowPx = useCell(narrow) && below ? TWO_LINES_PX : ROW_PX;
  const [first, last] = useWindow(body, rows.length, rowPx);
  const at = rows.findIndex((row) => nameOf(row) === current);

  const focus = (index: number) => {
    const row = rows[index];
    if (row === undefined) return;
    setCurrent(nameOf(row));
    const { top = 0 } = body.current?.getBoundingClientRect() ?? {};
    const y = top + index * rowPx;
    if (rows.length > VIRTUAL_FROM && (y < 0 || y > innerHeight - rowPx)) scrollBy({ top: y - innerHeight / 2 });
    // Renders synchronously, because the user's next key may be Enter, and only a rendered row can have the focus.
    const drawn = () => body.current?.querySelector<HTMLElement>(`tr[data-at="${index}"]`);
    const there = drawn();
    if (there) there.focus();
    else requestAnimationFrame(() => drawn()?.focus());
  };
  const open = (row: Row | undefined) => row !== undefined && hrefOf && go(hrefOf(row));
  const turn = (row: Row | undefined) => {
    if (row === undefined || !selected || !select) return;
    const next = new Set(selected);
    if (!next.delete(nameOf(row))) next.add(nameOf(row));
    select(next);
  };
  // If the screen has several tables, the focused table handles the keys. If no table has the focus, the first table handles the keys.
  const isMeant = () =>
    body.current === (document.activeElement?.closest("tbody") ?? document.querySelector("main table[aria-rowcount] tbody"));
  const isRow = () => document.activeElement?.parentElement === body.current;
  useKeys({
    j: () => isMeant() && focus(Math.min(at + 1, rows.length - 1)),
    k: () => isMeant() && focus(Math.max(at - 1, 0)),
    ArrowDown: () => isRow() && focus(Math.min(at + 1, rows.length - 1)),
    ArrowUp: () => isRow() && focus(Math.max(at - 1, 0)),
    Enter: () => isRow() && open(rows[at]),
    ...(select && { x: () => isMeant() && turn(rows[at]) }),
  });

  // Caches the cells of each row, so that an unchanged row is not rendered again.
  const shownIn = useCell(zone);
  const made = useMemo(() => new WeakMap<Row, ComponentChildren>(), [columns, shownIn]);
  const cellsOf = (row: Row) => {
    const cells =
      made.get(row) ??
      columns.map((column) => (
        <td key={column.head} class={kind(column)}>
          {column.cell(row)}
        </td>
      ));
    made.set(row, cells);
    return cells;
  };

  const template = (widths: string[]) =>
    [...(select ? ["32px"] : []), ...widths.map((width) => (width.endsWith("fr") ? `minmax(0, ${width})` : width))].join(" ");
  const style = {
    "--columns": template(columns.map(({ width = "1fr" }) => width)),
    "--narrow": template(columns.flatMap(({ isMinor, width = "1fr", narrow = width }) => (isMinor ? [] : [narrow]))),
  };
  return (
    <table
      aria-label={label}
      aria-rowcount={rows.length + 1}
      style={style}
      data-opens={hrefOf !== undefined || undefined}
      data-below={below !== undefined || undefined}
    >
      <thead>
        <tr>
          {select && <th aria-label="Selected" />}
          {columns.map((column) => (
            <th key={column.head} scope="col" class={kind(column)}>
              {column.head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody ref={body} style={{ paddingTop: first * rowPx, paddingBottom: (rows.length - last) * rowPx }}>
        {rows.slice(first, last).map((row, index) => {
          const name = nameOf(row);
          return (
            <tr
              key={name}
              aria-rowindex={first + index + 2}
              aria-selected={selected?.has(name)}
              data-at={first + index}
              data-current={name === current || undefined}
              tabIndex={name === current || (at < 0 && index === 0) ? 0 : -1}
              onFocus={() => setCurrent(name)}
              onClick={(event) => (event.target as Element).closest("a, button, input") || getSelection()?.toString() || open(row)}
            >
              {select && (
                <td>
                  <input type="checkbox" aria-label={`Select ${name}`} checked={selected?.has(name) ?? false} onChange={() => turn(row)} />
                </td>
              )}
              {cellsOf(row)}
              {below && (
                <td class="below" colSpan={columns.length}>
                  {below(row)}
                </td>
              )}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function kind<Row>({ isMinor, isNumber }: Column<Row>): string | undefined {
  return [isMinor && "minor", isNumber && "number"].filter(Boolean).join(" ") || undefined;
}

/** Computes the range of rows that are rendered. All rows of a short list are rendered. */
function useWindow(body: { readonly current: HTMLElement | null }, count: number, rowPx: number): readonly [first: number, last: number] {
  const [first, setFirst] = useState(0);
  const isLong = count > VIRTUAL_FROM;
  useEffect(() => {
    if (!isLong) return setFirst(0);
    const look = () => {
      const above = -(body.current?.getBoundingClientRect().top ?? 0) / rowPx;
      setFirst(Math.max(0, Math.floor((above - BESIDE) / STEP) * STEP));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, [isLong, count, rowPx]);
  if (!isLong) return [0, count];
  const begin = Math.min(first, Math.max(0, count - 2 * BESIDE));
  return [begin, Math.min(count, begin + Math.ceil(innerHeight / rowPx) + 2 * BESIDE + STEP)];
}
