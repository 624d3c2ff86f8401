import { may } from "../../data/session.ts";

/** A note for a token without the scope `unattributed`: dead letters without a tenant may exist. */
export function OfNoTenant() {
  if (may("unattributed")) return null;
  return (
    <>
      Dead letters without a tenant are shown only to a token with the scope <code>unattributed</code>.
    </>
  );
}
