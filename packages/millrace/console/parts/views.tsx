import { Link } from "../frame/router.tsx";

/** The ways in which a screen shows its things, as links: the one that is shown says so. */
export function Views({ label, views, current }: { label: string; views: Readonly<Record<string, string>>; current: string }) {
  return (
    <nav aria-label={label}>
      {Object.entries(views).map(([title, to]) => (
        <Link key={title} to={to} aria-current={title === current ? "page" : undefined}>
          {title}
        </Link>
      ))}
    </nav>
  );
}
