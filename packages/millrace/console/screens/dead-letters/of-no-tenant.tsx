import { may } from "../../data/session.ts";

/** Explains that letters without a tenant may exist if the token may not see them. */
export function OfNoTenant() {
  if (may("unattributed")) return null;
  return (
    <>
      Dead letters without a tenant are shown only to a token with the scope <code>unattributed</code>.
    </>
  );
}
