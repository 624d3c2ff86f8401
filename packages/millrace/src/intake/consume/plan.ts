import type { Envelope } from "../../contract/envelope.ts";
import type { RowStatement } from "../../contract/sql.ts";
import type { Assigned } from "../../signals/assign.ts";
import type { AcceptedRow } from "../../store/instances/accept.ts";
import type { StreamMove } from "../../store/sequences.ts";
import type { Acceptance } from "../accept/accept.ts";
import type { ByIdentity } from "../identity.ts";

/** What one delivered message leads to: everything that is written when it is taken in. */
export interface Plan {
  readonly message: Message;
  readonly envelope: Envelope;
  /** Started as soon as they are taken in: the command itself, or the runs that follow an event. */
  readonly instances: readonly Acceptance[];
  /** Sent to queues of their own. */
  readonly commands: readonly Acceptance[];
  readonly rows: readonly RowStatement[];
  /** True for an event that runs may wait for. */
  readonly signal: boolean;
  /** How its stream moves on, where its queue has a rule for gaps. */
  readonly move?: StreamMove | undefined;
}

/** The plan of a message from which nothing follows any more: it is confirmed. */
export function nothing({ message, envelope }: Pick<Plan, "message" | "envelope">): Plan {
  return { message, envelope, instances: [], commands: [], rows: [], signal: false };
}

/** What the database answered to the write that took plans in. */
export interface Written {
  /** The rows that are taken in. */
  readonly taken: ByIdentity<AcceptedRow>;
  /** Those of commands that are new. */
  readonly sent: ByIdentity<AcceptedRow>;
  /** The events that are kept anew. */
  readonly kept: readonly Envelope[];
  /** The waits that have their event now. */
  readonly waits: readonly Assigned[];
}
