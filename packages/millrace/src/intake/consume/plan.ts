import type { Envelope } from "../../contract/envelope.ts";
import type { RowStatement } from "../../contract/sql.ts";
import type { Assigned } from "../../signals/assign.ts";
import type { AcceptedRow } from "../../store/instances/accept.ts";
import type { KnownRow } from "../../store/instances/keys.ts";
import type { StreamMove } from "../../store/sequences.ts";
import type { Acceptance } from "../accept/accept.ts";
import type { ByIdentity } from "../identity.ts";

/** The consequences of one message: all rows and messages that the message's acceptance writes. */
export interface Plan {
  readonly message: Message;
  readonly envelope: Envelope;
  /** Instances that are started after the commit: the instance of a command, or the instances that an event starts. */
  readonly instances: readonly Acceptance[];
  /** Commands that are sent to their own queues after the commit. */
  readonly commands: readonly Acceptance[];
  readonly rows: readonly RowStatement[];
  /** True for an event of a type for which instances can wait. */
  readonly signal: boolean;
  /** The new position of the message's stream, if its queue has a gap rule. */
  readonly move?: StreamMove | undefined;
  /** Code of routes that runs after the commit. */
  readonly after?: readonly (() => Promise<unknown>)[];
}

/** The plan of a message without consequences. The acceptance of such a message writes only its confirmation. */
export function nothing({ message, envelope }: Pick<Plan, "message" | "envelope">): Plan {
  return { message, envelope, instances: [], commands: [], rows: [], signal: false };
}

/** The rows that the commit of plans returned. */
export interface Written {
  /** The rows of accepted instances. */
  readonly taken: ByIdentity<AcceptedRow>;
  /** The rows of new commands. */
  readonly sent: ByIdentity<KnownRow>;
  /** The newly stored events. */
  readonly kept: readonly Envelope[];
  /** The waits that received their event. */
  readonly waits: readonly Assigned[];
}
