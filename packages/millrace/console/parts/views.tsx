import { Link } from "../frame/router.tsx";

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
