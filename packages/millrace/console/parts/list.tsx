import { type ComponentChildren, Fragment, type VNode } from "preact";
import { useRef } from "preact/hooks";
import type { Item as ItemOf, Path } from "../data/api.ts";
import { type ListOptions, type Pages, useList } from "../data/use-data.ts";
import { FilterBar, type Filters, filtersOf, useFilters } from "../frame/filters.tsx";
import { useWalk } from "../frame/router.tsx";
import { Acts, Asking, useActs } from "./act.tsx";
import { Button, Empty, Reading } from "./page.tsx";
import { Table, type TableProps } from "./table.tsx";
import { begun } from "./text.tsx";

interface Shown<Row extends object> extends Partial<Omit<TableProps<Row>, "rows" | "nameOf">> {
  /** The name of a row, without the plural. */
  noun: string;
  /** The reason why the list is empty, or a text for `Empty`. */
  empty: string | VNode;
  command?: string;
  /** The reason why a page without rows is not the last page. */
  further?: string;
  /** Draws a row as an `Item`. Default: the rows are in a table with `columns`. */
  row?: (row: Row) => ComponentChildren;
}

interface Loaded<Row> {
  pages: Pages<Row>;
  /** Shows a result of an action. */
  told: (sentence: ComponentChildren) => void;
}

interface ListProps<At extends Path> extends Shown<ItemOf<At>>, ListOptions<ItemOf<At>> {
  at: At;
  /** Default: the filters that the route declares. */
  filters?: Filters;
  /** Further parameters of the query. They replace the values of filters with the same name. */
  query?: object;
  /** The content between the filters and the rows. */
  head?: (list: Loaded<ItemOf<At>>) => ComponentChildren;
}

/** The list of a route: its filters, the actions on its rows with their results, and its rows. */
export function List<At extends Path>({ at, filters = filtersOf(at), query = {}, head, ...rest }: ListProps<At>) {
  const { param, nameOf, about, rowIn, load, ...shown } = rest;
  const set = useFilters(filters);
  const options = { param, nameOf, about, rowIn, load } as ListOptions<ItemOf<At>>;
  const pages = useList(at, { ...set, ...query }, options);
  const { ask, told, line } = useActs(pages.again);
  return (
    <Asking.Provider value={ask}>
      <FilterBar filters={filters} />
      {head?.({ pages, told })}
      {line}
      <Rows {...(shown as Shown<ItemOf<At>>)} pages={pages} isFiltered={Object.keys(set).length > 0} />
    </Asking.Provider>
  );
}

interface RowsProps<Row extends object> extends Shown<Row> {
  pages: Pages<Row>;
  isFiltered: boolean;
}

function Rows<Row extends object>({ pages, noun, empty, command, further, row, isFiltered, columns = [], ...table }: RowsProps<Row>) {
  const { rows, problem, nameOf, more, newest } = pages;
  const list = useRef<HTMLUListElement>(null);
  useWalk(list);
  const count = rows?.length ?? 0;
  const none = more && further ? further : isFiltered ? `No ${noun} matches these filters. Clear shows all.` : empty;
  return (
    <>
      {(problem || !rows) && <Reading problem={problem} />}
      {newest && (
        <p role="status">
          There are more new {noun}s than one page shows. <Button press={newest}>Show the newest</Button>
        </p>
      )}
      {rows && count === 0 && !problem && (typeof none === "string" ? <Empty command={none === empty ? command : ""}>{none}</Empty> : none)}
      {rows && count > 0 && row && (
        <ul class="items" ref={list}>
          {rows.map((one) => (
            <Fragment key={nameOf(one)}>{row(one)}</Fragment>
          ))}
        </ul>
      )}
      {rows && count > 0 && !row && <Table label={begun(`${noun}s`)} {...table} {...{ rows, columns, nameOf }} />}
      {(count > 0 || more) && (
        <p class="quiet foot">
          <span role="status">
            {count} {count === 1 ? noun : `${noun}s`}
            {more ? (count > 0 ? " shown; there are more" : " so far") : ""}
          </span>
          {more && <Button press={more}>{count > 0 ? "Show more" : "Search further"}</Button>}
        </p>
      )}
    </>
  );
}

interface ItemProps {
  mark: ComponentChildren;
  title: ComponentChildren;
  /** The lines below the title. An empty line is left out. */
  notes?: readonly ComponentChildren[];
  acts?: Parameters<typeof Acts>[0]["of"];
  children?: ComponentChildren;
}

/** A row of a list: a status, a title, notes, and actions for operators. */
export function Item({ mark, title, notes = [], acts, children }: ItemProps) {
  return (
    <li>
      <div>{mark}</div>
      <div>
        <p>{title}</p>
        {notes.filter(Boolean).map((note, nth) => (
          <p key={nth} class="quiet">
            {note}
          </p>
        ))}
        {children}
      </div>
      {acts && <Acts of={acts} />}
    </li>
  );
}
