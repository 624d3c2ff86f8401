import { type ComponentChildren, type ComponentType, Fragment } from "preact";
import { useId } from "preact/hooks";
import { useCell } from "../data/cell.ts";
import type { Problem } from "../data/problem.ts";
import { may, session } from "../data/session.ts";
import { hrefOf, Link } from "../frame/router.tsx";
import { marked } from "./text.tsx";

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
        of={Object.entries(pages).map(([page, [label]]) => [label, hrefOf(screen, page), open[page]])}
      />
      <Page key={name} />
    </>
  );
}

export type View = readonly [title: string, to: string, open?: string | undefined];

/** The links to the views of a screen, with the number of open items of each. */
export function Views({ label, of, current }: { label: string; of: readonly View[]; current: string }) {
  return (
    <ul class="pages" aria-label={label}>
      {of.map(([title, to, open]) => (
        <li key={title}>
          <Link to={to} aria-current={title === current ? "page" : undefined}>
            {title}
            {open && <strong> {open}</strong>}
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

export function Code({ code }: { code: string }) {
  return (
    <a href={`/problems#${code}`} target="_blank" rel="noreferrer">
      {code}
    </a>
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
