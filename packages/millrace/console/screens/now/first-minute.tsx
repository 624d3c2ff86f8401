import { useCatalog } from "../../data/use-catalog.ts";
import { hrefOf, Link } from "../../frame/router.tsx";

/** Shows the first steps on a development machine: the user sends a command, sees the instance fail, and retries the instance. */
export function FirstMinute() {
  const { data } = useCatalog();
  const first = data?.first_command;
  if (!first) return null;
  const to = hrefOf("send", { message: `command ${first.type}`, example: "first" });
  return (
    <section class="first-minute" aria-labelledby="first-minute">
      <h2 id="first-minute">Your first minute: send a command, see it fail, retry it</h2>
      <ol class="clicks">
        <li>
          <Link class="main" to={to}>
            Open a command that fails once
          </Link>
          <p>The form is filled in, and the idempotency key is shown.</p>
        </li>
        <li>
          <strong>Press Send</strong>
          <p>The instance opens and shows why it failed.</p>
        </li>
        <li>
          <strong>Press Retry</strong>
          <p>A preview shows the steps that run again. Enter a reason, confirm, and see the instance complete.</p>
        </li>
      </ol>
      <p class="quiet">
        All commands and events are in the <Link to={hrefOf("catalog")}>Catalog</Link>.
      </p>
    </section>
  );
}
