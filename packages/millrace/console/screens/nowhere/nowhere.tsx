import { hrefOf, Link, usePlace } from "../../frame/router.tsx";
import type { Screen } from "../screen.ts";

export const NOWHERE: Screen = { path: "nowhere", title: "No such page", component: Nowhere };

function Nowhere() {
  const { path } = usePlace();
  return (
    <>
      <h1>No such page</h1>
      <p>
        The console has no page at <bdi>{["/console", ...path].join("/")}</bdi>. Check the address; it may belong to another version.
      </p>
      <p>
        <Link to={hrefOf()}>Back to Now</Link>
      </p>
    </>
  );
}
