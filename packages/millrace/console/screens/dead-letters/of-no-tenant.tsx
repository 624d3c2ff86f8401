import { may } from "../../data/session.ts";

/** Says beside an empty list that there may be letters which this token is not shown; nothing where it is shown them. */
export function OfNoTenant() {
  if (may("unattributed")) return null;
  return (
    <>
      Dead letters without a tenant are shown only to a token with the scope <code>unattributed</code>.
    </>
  );
}
