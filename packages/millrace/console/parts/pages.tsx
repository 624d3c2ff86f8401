import type { ComponentType } from "preact";
import { hrefOf, Link } from "../frame/router.tsx";

interface PagesProps {
  screen: string;
  title: string;
  pages: Readonly<Record<string, readonly [title: string, page: ComponentType]>>;
  /** The page's name in the path. Default: the first page. */
  at: string;
  /** The open items of a page, shown at its link. */
  open?: Readonly<Record<string, string>>;
}

/** A screen of several pages, with a link to each. */
export function Pages({ screen, title, pages, at, open = {} }: PagesProps) {
  const name = Object.hasOwn(pages, at) ? at : (Object.keys(pages)[0] ?? "");
  const [heading, Page] = pages[name] ?? ["", () => null];
  return (
    <>
      <h1>{heading}</h1>
      <ul class="pages" aria-label={title}>
        {Object.entries(pages).map(([page, [label]]) => (
          <li key={page}>
            <Link to={hrefOf(screen, page)} aria-current={page === name ? "page" : undefined}>
              {label}
              {open[page] && <strong> {open[page]}</strong>}
            </Link>
          </li>
        ))}
      </ul>
      <Page key={name} />
    </>
  );
}
