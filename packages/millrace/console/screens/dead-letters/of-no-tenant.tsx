import { may } from "../../data/session.ts";

/** A note for a token without the scope `unattributed`: such a token cannot see dead letters without a tenant. */
export function OfNoTenant() {
  if (may("unattributed")) return null;
  return (
    <>
      Dead letters without a tenant are shown only to a token with the scope <code>unattributed</code>.
    </>
  );
}
