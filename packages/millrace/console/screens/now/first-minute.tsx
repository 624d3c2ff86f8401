import { useCatalog } from "../../data/use-catalog.ts";
import { hrefOf, Link } from "../../frame/router.tsx";

/** From a command sent to a failure retried by three clicks: on a development machine whose app names a command to begin with. */
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
          <p>Its form is filled in, and its key is shown.</p>
        </li>
        <li>
          <strong>Press Send</strong>
          <p>Its instance opens, and says why it failed.</p>
        </li>
        <li>
          <strong>Press Retry</strong>
          <p>What would run again is shown first. Say why, and see it complete.</p>
        </li>
      </ol>
      <p class="quiet">
        What else there is to send stands in the <Link to={hrefOf("catalog")}>Catalog</Link>.
      </p>
    </section>
  );
}
