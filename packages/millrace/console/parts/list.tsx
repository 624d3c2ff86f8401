import type { ComponentChildren } from "preact";
import type { Pages } from "../data/use-pages.ts";
import { ProblemNote } from "./problem.tsx";

interface ListProps<Row> {
  pages: Pages<Row>;
  noun: readonly [one: string, many: string];
  empty: ComponentChildren;
  children: (rows: Row[]) => ComponentChildren;
}

export function List<Row>({ pages: { rows, problem, more, newest }, noun: [one, many], empty, children }: ListProps<Row>) {
  return (
    <>
      {problem && <ProblemNote problem={problem} />}
      {!rows && !problem && <p class="quiet">Reading …</p>}
      {newest && (
        <p role="status">
          There are more new {many} than one page shows.{" "}
          <button type="button" onClick={newest}>
            Show the newest
          </button>
        </p>
      )}
      {rows?.length === 0 && !problem && empty}
      {rows && rows.length > 0 && children(rows)}
      {rows && (rows.length > 0 || more) && (
        <p class="quiet foot">
          <span role="status">
            {rows.length} {rows.length === 1 ? one : many}
            {more ? (rows.length > 0 ? " shown; there are more" : " so far") : ""}
          </span>
          {more && (
            <button type="button" onClick={more}>
              {rows.length > 0 ? "Show more" : "Search further"}
            </button>
          )}
        </p>
      )}
    </>
  );
}
