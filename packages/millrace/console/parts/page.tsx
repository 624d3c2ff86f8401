import { type ComponentChildren, type ComponentType, Fragment, type VNode } from "preact";
import { useId, useRef } from "preact/hooks";
import { useCell } from "../data/cell.ts";
import type { Problem } from "../data/problem.ts";
import { may, session } from "../data/session.ts";
import type * as Data from "../data/use-data.ts";
import { hrefOf, Link, useWalk } from "../frame/router.tsx";
import { Ago, GAPS, hasGaps, marked } from "./text.tsx";

export interface ListProps<Row> {
  pages: Data.Pages<Row>;
  noun: readonly [one: string, many: string];
  /** The reason why the list is empty, or a text for `Empty`. */
  empty: string | VNode;
  /** The command that fills the list. */
  command?: string;
  /** The filters of the list. If a filter is set, an empty list says so. Default: `empty` is shown. */
  filters?: object;
  children: (rows: Row[]) => ComponentChildren;
}

export function List<Row>({ pages, noun: [one, many], empty, command, filters = {}, children }: ListProps<Row>) {
  const { rows, problem, more, newest } = pages;
  const isFiltered = Object.values(filters).some(Boolean);
  const none = isFiltered ? `No ${one} matches these filters. Clear shows all.` : empty;
  return (
    <>
      {(problem || !rows) && <Reading problem={problem} />}
      {newest && (
        <p role="status">
          There are more new {many} than one page shows. <Button press={newest}>Show the newest</Button>
        </p>
      )}
      {rows?.length === 0 && !problem && (typeof none === "string" ? <Empty command={isFiltered ? "" : command}>{none}</Empty> : none)}
      {rows && rows.length > 0 && children(rows)}
      {rows && (rows.length > 0 || more) && (
        <p class="quiet foot">
          <span role="status">
            {rows.length} {rows.length === 1 ? one : many}
            {more ? (rows.length > 0 ? " shown; there are more" : " so far") : ""}
          </span>
          {more && <Button press={more}>{rows.length > 0 ? "Show more" : "Search further"}</Button>}
        </p>
      )}
    </>
  );
}

export function Empty({ children, command }: { children: ComponentChildren; command?: string | undefined }) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command && <pre>{command}</pre>}
    </div>
  );
}

/** An empty list that a command fills. `children` says why it is empty. */
export function NothingSent({ children }: { children: ComponentChildren }) {
  const command = `curl ${location.origin}/v1/commands -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
  -d '{"type":"…","payload":{…}}'`;
  return (
    <Empty command={command}>
      {children} <Link to={hrefOf("send")}>Send</Link> a command from here, or from a terminal:
    </Empty>
  );
}

export function ProblemNote({ problem }: { problem: Problem }) {
  const { title, detail, code, status, issues = [], instance_id: instance } = problem;
  // A detail that only repeats the title and the fields is not shown.
  const saysTwice = issues.length > 0 && detail.startsWith(title);
  return (
    <div class="problem" role="alert">
      <p>
        <strong>{title}.</strong> {!saysTwice && marked(detail)}
      </p>
      {issues.length > 0 && <Issues of={issues} />}
      <p class="quiet">
        {typeof instance === "string" && <Link to={hrefOf("instances", instance)}>The conflicting instance</Link>}
        {code === "bulk_actions_running" && <Link to={hrefOf("actions", { state: "running" })}>Running bulk actions</Link>}{" "}
        {status !== 0 && <Code code={code} />}
      </p>
    </div>
  );
}

/** The invalid fields of a message. */
export function Issues({ of }: { of: readonly { path: string; message: string }[] }) {
  return (
    <ul>
      {of.map(({ path, message }) => (
        <li key={`${path} ${message}`}>
          <code>{path}</code> <bdi>{marked(message)}</bdi>
        </li>
      ))}
    </ul>
  );
}

/** Shows counts of the whole deployment, or asks for the scope that they need. `what` are the counts in words. */
export function Observed({ what, children }: { what: string; children: ComponentChildren }) {
  const { caller } = useCell(session);
  if (may("observe")) return <>{children}</>;
  const command = `npm run -s token -- --tenant ${caller?.tenant} --actor you --scopes read,operate,observe --days 90`;
  return <Empty command={command}>{what} for the whole deployment, over all tenants. This needs a token with the scope observe.</Empty>;
}

interface PagesProps {
  screen: string;
  title: string;
  pages: Readonly<Record<string, readonly [title: string, page: ComponentType]>>;
  /** The name of the current page, as in the URL's path. If no page has this name, the first page is shown. */
  at: string;
  /** The number of open items of each page, which the link to the page shows. */
  open?: Readonly<Record<string, string>>;
}

/** A screen that consists of several pages, with a link to each page. */
export function Pages({ screen, title, pages, at, open = {} }: PagesProps) {
  const name = Object.hasOwn(pages, at) ? at : (Object.keys(pages)[0] ?? "");
  const [heading, Page] = pages[name] ?? ["", () => null];
  return (
    <>
      <h1>{heading}</h1>
      <Views
        label={title}
        current={heading}
        views={Object.fromEntries(Object.entries(pages).map(([page, [label]]) => [label, hrefOf(screen, page)]))}
        open={Object.fromEntries(Object.entries(pages).map(([page, [label]]) => [label, open[page] ?? ""]))}
      />
      <Page key={name} />
    </>
  );
}

interface ViewsProps {
  label: string;
  /** The URL of each view, by its title. */
  views: Readonly<Record<string, string>>;
  current: string;
  open?: Readonly<Record<string, string>>;
}

/** The links to the views of a screen, with the number of open items of each. */
export function Views({ label, views, current, open = {} }: ViewsProps) {
  return (
    <ul class="pages" aria-label={label}>
      {Object.entries(views).map(([title, to]) => (
        <li key={title}>
          <Link to={to} aria-current={title === current ? "page" : undefined}>
            {title}
            {open[title] && <strong> {open[title]}</strong>}
          </Link>
        </li>
      ))}
    </ul>
  );
}

interface ButtonProps {
  press: () => unknown;
  children: ComponentChildren;
  /** `main` is the most useful action of a screen, and `danger` cannot be undone. */
  class?: string | undefined;
  label?: string;
  /** Runs before a press, when the user points at the button or focuses it. */
  aim?: () => unknown;
}

export function Button({ press, aim, children, label, ...rest }: ButtonProps) {
  return (
    <button {...rest} type="button" onClick={() => void press()} onPointerEnter={aim} onFocus={aim} aria-label={label}>
      {children}
    </button>
  );
}

/** A part of a screen with a heading. `id` is the target of links to it. */
export function Section({ title, id, children }: { title: ComponentChildren; id?: string; children: ComponentChildren }) {
  const name = useId();
  return (
    <section aria-labelledby={id ?? name}>
      <h2 id={id ?? name}>{title}</h2>
      {children}
    </section>
  );
}

/** The parts of a line of facts. An empty part is left out. */
export function Facts({ of }: { of: readonly ComponentChildren[] }) {
  return <p class="facts">{of.map((one, nth) => one && <span key={nth}>{one}</span>)}</p>;
}

/** A link with a text that a narrow column cuts. The tooltip has the whole text. */
export function LinkTo({ to, of, title = of }: { to: string; of: ComponentChildren; title?: ComponentChildren }) {
  return (
    <Link to={to} title={typeof title === "string" ? title : undefined}>
      <bdi>{of}</bdi>
    </Link>
  );
}

/** The common cause of the items of a list. */
export function CauseOf({ says, facts, of }: { says: string; facts: readonly string[]; of: { first_at: string; last_at: string } }) {
  return (
    <section aria-label="The cause">
      <p class="cause" data-tone="red">
        <bdi>{says}</bdi>
      </p>
      <p class="quiet">
        {facts.map((one) => [<bdi key={one}>{one}</bdi>, " · "])}
        first <Ago at={of.first_at} />, last <Ago at={of.last_at} />. {hasGaps(says) && GAPS}
      </p>
    </section>
  );
}

export function Code({ code }: { code: string }) {
  return (
    <a href={`/problems#${code}`} target="_blank" rel="noreferrer">
      {code}
    </a>
  );
}

type ItemsProps<Row> = Omit<ListProps<Row>, "children"> & { children: (row: Row) => ComponentChildren };

/** A list of `Item` rows. With the keys `j` and `k`, the focus moves from row to row. */
export function Items<Row>({ children, ...rest }: ItemsProps<Row>) {
  const list = useRef<HTMLUListElement>(null);
  useWalk(list);
  return (
    <List {...rest}>
      {(rows) => (
        <ul class="items" ref={list}>
          {rows.map(children)}
        </ul>
      )}
    </List>
  );
}

interface ItemProps {
  mark: ComponentChildren;
  title: ComponentChildren;
  /** The lines below the title. An empty line is left out. */
  notes?: readonly ComponentChildren[];
  acts?: ComponentChildren;
  children?: ComponentChildren;
}

/** A row of `Items`: a status, a title, notes, and actions for operators. */
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
      {acts && may("operate") && <div class="acts">{acts}</div>}
    </li>
  );
}

export function Reading({ problem }: { problem: Problem | undefined }) {
  return problem ? <ProblemNote problem={problem} /> : <p class="quiet">Reading …</p>;
}

interface LoadedProps<T> {
  of: { data: T | undefined; problem: Problem | undefined };
  children: (data: T) => ComponentChildren;
}

/** Shows loaded data, and the problem of the last load. */
export function Loaded<T>({ of: { data, problem }, children }: LoadedProps<T>) {
  return (
    <>
      {(problem || data === undefined) && <Reading problem={problem} />}
      {data !== undefined && children(data)}
    </>
  );
}

interface LostProps {
  title: string;
  problem: Problem | undefined;
  all: readonly [path: string, label: string];
}

/** A screen without its object, which is being read or does not exist. `all` is the path and the title of the list of such objects. */
export function Lost({ title, problem, all: [path, label] }: LostProps) {
  return (
    <>
      <h1>{title}</h1>
      <Reading problem={problem} />
      <p>
        <Link to={hrefOf(path)}>{label}</Link>
      </p>
    </>
  );
}

/** A list of names with their values. A name without a value is left out. */
export function Pairs({ of }: { of: Readonly<Record<string, ComponentChildren>> }) {
  return (
    <dl class="pairs">
      {Object.entries(of).map(([name, value]) =>
        value === null || value === undefined || value === false ? null : (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </Fragment>
        ),
      )}
    </dl>
  );
}

export interface Opened {
  key: string;
  cells: readonly ComponentChildren[];
  details: ComponentChildren;
  /** True for a record that is open before the user opens one. */
  isOpen?: boolean;
}

interface RecordsProps {
  label: string;
  /** The widths of the cells, as CSS grid widths. */
  columns: string;
  /** The index of the cell that narrow windows hide. */
  minor: number;
  of: readonly Opened[];
}

/** A list of records that the user can open. */
export function Records({ label, columns, minor, of }: RecordsProps) {
  return (
    <ul class="records" aria-label={label} style={{ "--columns": columns }}>
      {of.map(({ key, cells, details, isOpen = false }) => (
        <li key={key}>
          <details open={isOpen}>
            <summary>
              {cells.map((one, at) => (
                <span key={at} class={at === minor ? "minor" : undefined}>
                  {one}
                </span>
              ))}
            </summary>
            {details}
          </details>
        </li>
      ))}
    </ul>
  );
}

/** A list whose lines have columns. The widths of the columns are CSS grid widths. */
export function Lines({ of, columns }: { of: readonly (readonly ComponentChildren[])[]; columns: string }) {
  return (
    <ul class="lines" style={{ "--columns": columns }}>
      {of.map((cells, nth) => (
        <li key={nth}>
          {cells.map((one, at) => (
            <span key={at}>{one}</span>
          ))}
        </li>
      ))}
    </ul>
  );
}
