import { may } from "../../data/session.ts";

/** Says beside an empty list that there may be letters which this token is not shown; nothing where it is shown them. */
export function OfNoTenant() {
  if (may("unattributed")) return null;
  return (
    <>
      Letters that belong to no tenant are not shown to your token: they need the scope <code>unattributed</code>.
    </>
  );
}
