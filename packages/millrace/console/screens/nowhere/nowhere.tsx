import { hrefOf, Link, usePlace } from "../../frame/router.tsx";
import type { Screen } from "../screen.ts";

/** What stands at an address that no screen has. */
export const NOWHERE: Screen = { name: "nowhere", path: "", title: "No such page", component: Nowhere };

function Nowhere() {
  const { path } = usePlace();
  return (
    <>
      <h1>No such page</h1>
      <p>
        The console has nothing at <bdi>{["/console", ...path].join("/")}</bdi>: the address is mistyped, or of another version.
      </p>
      <p>
        <Link to={hrefOf()}>To Now</Link>
      </p>
    </>
  );
}
