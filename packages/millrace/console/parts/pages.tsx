import type { ComponentType } from "preact";
import { hrefOf, Link } from "../frame/router.tsx";

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
