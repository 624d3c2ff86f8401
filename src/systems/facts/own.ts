import { type Envelope, MillraceError } from "millrace";
import type { RecordedFact } from "../../messages/fact.ts";

export interface Told<Fact extends RecordedFact = RecordedFact> {
  readonly payload: Fact;
  readonly envelope: Pick<Envelope, "tenant_id">;
}

/**
 * Returns the fact of a message. A fact whose tenant differs from the envelope's tenant is refused before the fact has any effect. Throws
 * `invalid_payload`, which a retry cannot fix.
 */
export function ownFact<Fact extends RecordedFact>({ payload: fact, envelope }: Told<Fact>): Fact {
  if (fact.tenant_id === envelope.tenant_id) return fact;
  throw new MillraceError(
    "invalid_payload",
    `The fact names another tenant than its message does: set tenant_id to "${envelope.tenant_id}".`,
    {
      issues: [{ path: "payload.tenant_id", message: "must be the tenant of the message" }],
    },
  );
}
