import type { Problem } from "../data/problem.ts";
import { hrefOf, Link } from "../frame/router.tsx";

export function ProblemNote({ problem }: { problem: Problem }) {
  const { title, detail, code, status, issues = [], instance_id: instance } = problem;
  // A detail that only repeats the title and the fields is not shown.
  const saysTwice = issues.length > 0 && detail.startsWith(title);
  return (
    <div class="problem" role="alert">
      <p>
        <strong>{title}.</strong> {saysTwice ? "" : detail}
      </p>
      {issues.length > 0 && (
        <ul>
          {issues.map(({ path, message }) => (
            <li key={path}>
              <code>{path}</code> {message}
            </li>
          ))}
        </ul>
      )}
      <p class="quiet">
        {typeof instance === "string" && <Link to={hrefOf("instances", instance)}>The conflicting instance</Link>}
        {code === "bulk_actions_running" && <Link to={hrefOf("actions", { state: "running" })}>Running bulk actions</Link>}{" "}
        {status !== 0 && (
          <a href={`/problems#${code}`} target="_blank" rel="noreferrer">
            {code}
          </a>
        )}
      </p>
    </div>
  );
}
